"""The winners of a lake from its Parquet files in pandas, by the rules of ``queries/views``.

The same steps under the same names as in :mod:`warehouse.bench.frames_polars`, with the same limits. Text is
read as categories, which makes the large groupings several times faster than on strings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.bench.rules import (
    CELL,
    COMPARED,
    ENTRY,
    FOUND,
    STAGES,
    WHERE,
    Rules,
    files,
    modes_of,
    rank,
    read_rules,
)

_CELL, _ENTRY, _WHERE = list(CELL), list(ENTRY), list(WHERE)
_MODE = ["run_id", "timing_mode"]


def winners(lake: Path) -> list[tuple[Any, ...]]:
    """Return the winners as rows of WHERE and FOUND.

    Raises:
        ValueError: a sample stands in the lake twice.
    """
    rules = read_rules(lake)
    rounds = _round_medians(lake)
    entries = _entries(lake, rounds, rules)
    duels = _duels(rounds, entries, rules).merge(_tie_bands(lake, rounds, rules), on=_MODE)
    outcomes = _outcomes(entries, _records(duels), _shuffled(rounds), rules)
    result = _speaking(lake, outcomes)[[*WHERE, *FOUND]]
    return [tuple(None if pd.isna(v) else v for v in row) for row in result.itertuples(index=False)]


def _read(lake: Path, table: str) -> pd.DataFrame:
    return pa.concat_tables([pq.read_table(path) for path in files(lake, table)]).to_pandas()


def _round_medians(lake: Path) -> pd.DataFrame:
    """round_medians; a repeated sample is noticed where it would enter a median."""
    columns = [*ENTRY, "session", "round", "position", "sample", "time_us"]
    tables = [pq.read_table(path, columns=columns, read_dictionary=_ENTRY) for path in files(lake, "samples")]
    samples = pa.concat_tables(tables).unify_dictionaries().to_pandas()
    del tables
    keys = [*ENTRY, "round"]
    # One number for each group, so that the aggregations below group by a single key.
    samples["group"] = samples.groupby(keys, observed=True, sort=False).ngroup()
    rounds = samples.drop_duplicates("group")[[*keys, "group"]].set_index("group")
    grouped = samples.groupby("group", sort=False)
    rounds["session"] = grouped["session"].min()
    rounds["position"] = grouped["position"].min()
    valid = samples["time_us"] > 0
    rounds["invalid"] = grouped.size() - valid.groupby(samples["group"], sort=False).sum()
    rounds["median_us"] = samples[valid].groupby("group", sort=False)["time_us"].median()
    if samples.duplicated(["group", "sample"]).any():
        raise ValueError("a sample stands in the lake twice")
    return rounds.astype(dict.fromkeys(_ENTRY, "str")).reset_index(drop=True)


def _entries(lake: Path, rounds: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """contestant_status and required_field: every required contestant of every cell and mode."""
    runs = _read(lake, "runs")
    started = runs.loc[runs["event_seq"] == 0, ["run_id", "device", "plan_json"]]
    modes = pd.DataFrame(
        [(run, mode) for run, _, plan in started.itertuples(index=False) for mode in modes_of(plan)],
        columns=_MODE,
    )
    rosters = _read(lake, "rosters")
    cells = _read(lake, "cells")[["run_id", "cell_id", "precision"]]
    precisions = cells[["run_id", "precision"]].drop_duplicates().merge(started, on="run_id")
    names = ["run_id", "precision", "contestant"]
    by_policy = pd.DataFrame(
        [
            (run, precision, name)
            for run, precision, device, _ in precisions.itertuples(index=False)
            for name in rules.policy.required(device, precision)
        ],
        columns=names,
    )
    by_roster = rosters.loc[rosters["role"] == "required", names]
    required = pd.concat([by_policy, by_roster]).drop_duplicates()
    required = required.merge(rosters[["contestant", "house"]].drop_duplicates(), on="contestant")
    counted = rounds[rounds["median_us"].notna()].groupby(_ENTRY)
    measured = pd.DataFrame(
        {
            "rounds": counted.size(),
            "sessions": counted["session"].nunique(),
            "time_us": counted["median_us"].median(),
            "invalid": rounds.groupby(_ENTRY)["invalid"].sum(),
        }
    ).reset_index()
    entries = (
        cells.merge(modes, on="run_id")
        .merge(required, on=["run_id", "precision"])
        .merge(measured, on=_ENTRY, how="left")
        .merge(_verdicts(lake, modes), on=_ENTRY, how="left")
    )
    entries = entries.fillna({"rounds": 0, "sessions": 0, "invalid": 0})
    for flag, otherwise in (("passed", False), ("own_fault", False), ("latest_passed", True)):
        entries[flag] = entries[flag].astype("boolean").fillna(otherwise).astype(bool)
    present = (
        (entries["rounds"] > 0)
        & (entries["invalid"] == 0)
        & entries["passed"]
        & entries["latest_passed"]
        & ~entries["own_fault"]
    )
    most = entries["rounds"].where(present).groupby([entries[name] for name in CELL]).transform("max")
    entries["usable"] = present & ((entries["rounds"] >= rules.min_rounds) | (entries["rounds"] == most))
    return entries


def _verdicts(lake: Path, modes: pd.DataFrame) -> pd.DataFrame:
    """verdict_summary: those of mode 'all' hold for every mode of the run."""
    verdicts = _read(lake, "verdicts")
    every = verdicts["timing_mode"] == "all"
    spread = verdicts[every].drop(columns="timing_mode").merge(modes, on="run_id")
    columns = [*ENTRY, "recorded_at", "session", "stage", "reason_code", "status", "fault"]
    verdicts = pd.concat([verdicts.loc[~every, columns], spread[columns]])
    passed = verdicts["status"] == "passed"
    verdicts["passed"] = passed & verdicts["stage"].isin(COMPARED)
    verdicts["own_fault"] = ~passed & (verdicts["fault"] == "contestant")
    verdicts["latest_passed"] = passed
    verdicts["stage"] = verdicts["stage"].map(STAGES.index)
    verdicts["reason_code"] = verdicts["reason_code"].fillna("")
    ordered = verdicts.sort_values(["recorded_at", "session", "stage", "reason_code"])
    return (
        ordered.groupby(_ENTRY)
        .agg({"passed": "any", "own_fault": "any", "latest_passed": "last"})
        .reset_index()
    )


def _tie_bands(lake: Path, rounds: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """noise_floors, over the control's rounds in all cells of a run."""
    rosters = _read(lake, "rosters")
    controls = rosters.loc[rosters["role"] == "control", ["run_id", "contestant", "control_of"]]
    medians = rounds.loc[rounds["median_us"].notna(), [*ENTRY, "round", "median_us"]]
    repeated = medians.merge(controls.drop_duplicates(), on=["run_id", "contestant"])
    original = medians.rename(columns={"contestant": "control_of", "median_us": "original_us"})
    pairs = repeated.merge(original, on=[*CELL, "round", "control_of"])
    pairs["deviation"] = (pairs["median_us"] / pairs["original_us"] - 1).abs()
    floors = pairs.groupby(_MODE)["deviation"].quantile(rules.noise_quantile)
    return floors.clip(lower=rules.tie_band).rename("band").reset_index()


def _shuffled(rounds: pd.DataFrame) -> pd.DataFrame:
    """round_orders."""
    positions = rounds.groupby([*_MODE, "contestant"])["position"].nunique()
    return (positions.groupby(_MODE).max() > 1).rename("shuffled").reset_index()


def _duels(rounds: pd.DataFrame, entries: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """ratios: between usable required contestants of different houses."""
    usable = entries.loc[entries["usable"], [*ENTRY, "house", "time_us"]]
    medians = rounds.loc[rounds["median_us"].notna(), [*ENTRY, "round", "median_us"]].merge(usable, on=_ENTRY)
    rivals = medians.drop(columns="time_us").rename(
        columns={"contestant": "rival", "median_us": "rival_us", "house": "rival_house"}
    )
    pairs = medians.merge(rivals, on=[*CELL, "round"])
    pairs = pairs[pairs["house"] != pairs["rival_house"]]
    pairs["speedup"] = pairs["rival_us"] / pairs["median_us"]
    pairs["duel"] = pairs.groupby([*ENTRY, "rival"], sort=False).ngroup()
    pairs = pairs.sort_values(["duel", "speedup"])
    place = pairs.groupby("duel").cumcount()
    duels = pairs.drop_duplicates("duel").set_index("duel")[[*ENTRY, "rival", "time_us"]]
    speedups = pairs.groupby("duel")["speedup"]
    duels["rounds"] = speedups.size()
    duels["speedup"] = speedups.median()
    ranks = duels["rounds"].map(lambda n: rank(n, rules.confidence)).astype("float64")
    low = pairs["duel"].map(ranks)
    pairs = pairs.set_index("duel")
    duels["lo"] = pairs.loc[(place == low - 1).to_numpy(), "speedup"]
    high = pairs.index.map(duels["rounds"]) - low.to_numpy()
    duels["hi"] = pairs.loc[place.to_numpy() == high, "speedup"]
    return duels.reset_index(drop=True)


def _records(duels: pd.DataFrame) -> pd.DataFrame:
    """required_records: each contestant against all its rivals; the nearest of them."""
    duels = duels.sort_values(["speedup", "rival"])
    duels["beats_all"] = duels["lo"] > 1 + duels["band"]
    duels["level"] = (duels["lo"] >= 1 / (1 + duels["band"])) & (duels["hi"] <= 1 + duels["band"])
    duels["no_interval"] = duels["lo"].isna()
    nearest = duels.drop_duplicates(_ENTRY)[[*ENTRY, "time_us", "rival", "speedup", "lo", "hi"]]
    over_all = duels.groupby(_ENTRY).agg(
        {"beats_all": "all", "level": "any", "no_interval": "any", "rounds": "min"}
    )
    return nearest.merge(over_all.rename(columns={"rounds": "shared"}).reset_index(), on=_ENTRY)


def _outcomes(
    entries: pd.DataFrame, records: pd.DataFrame, shuffled: pd.DataFrame, rules: Rules
) -> pd.DataFrame:
    """run_outcomes: what each run alone says."""
    by_time = ["time_us", "contestant"]
    entries["absent"] = ~entries["usable"] & ~entries["own_fault"]
    usable = entries[entries["usable"]].sort_values(by_time)
    of_usable = usable.groupby(_CELL)
    fields = pd.DataFrame(
        {
            "missing": entries.groupby(_CELL)["absent"].any(),
            "houses": of_usable["house"].nunique(),
            "rounds": of_usable["rounds"].min(),
            "sessions": of_usable["sessions"].min(),
            "fastest": of_usable["contestant"].first(),
            "champion": records[records["beats_all"]]
            .sort_values(by_time)
            .groupby(_CELL)["contestant"]
            .first(),
            "no_interval": records.groupby(_CELL)["no_interval"].any(),
            "shared": records.groupby(_CELL)["shared"].min(),
        }
    ).reset_index()
    cells = fields.merge(
        records[[*ENTRY, "level"]].rename(columns={"contestant": "fastest"}),
        on=[*CELL, "fastest"],
        how="left",
    ).merge(shuffled, on=_MODE, how="left")
    too_little = (
        cells["shuffled"].eq(False)
        | (cells[["rounds", "shared"]].min(axis=1) < rules.min_rounds)
        | (cells["sessions"] < rules.min_sessions)
        | cells["no_interval"].eq(True)
    )
    cells["outcome"] = np.select(
        [
            cells["missing"] | cells["houses"].isna(),
            cells["houses"] <= 1,
            too_little,
            cells["champion"].notna(),
            cells["level"].eq(True),
        ],
        ["incomplete", "sole entrant", "inconclusive", "win", "tie"],
        "inconclusive",
    )
    cells["leader"] = cells["fastest"].where(cells["outcome"].isin(["tie", "inconclusive"]))
    cells["leader"] = cells["champion"].where(cells["outcome"] == "win", cells["leader"])
    houses = entries[[*ENTRY, "house"]].rename(columns={"contestant": "leader"})
    nearest = records[[*ENTRY, "rival", "speedup", "lo", "hi"]].rename(
        columns={
            "contestant": "leader",
            "rival": "runner_up",
            "speedup": "margin",
            "lo": "margin_lo",
            "hi": "margin_hi",
        }
    )
    key = [*CELL, "leader"]
    cells = cells.merge(houses, on=key, how="left").merge(nearest, on=key, how="left")
    won = cells["outcome"] == "win"
    cells["winner"] = cells["leader"].where(won)
    cells["house"] = cells["house"].where(won)
    return cells


def _speaking(lake: Path, outcomes: pd.DataFrame) -> pd.DataFrame:
    """winners: the latest complete run speaks, unless equal runs disagree."""
    runs = _read(lake, "runs")
    runs = runs[runs["event_seq"] == 0]
    workers = _read(lake, "workers")
    version = workers["contestant"] + ":" + workers["package_version"] + ":" + workers["source_sha256"]
    versions = version.groupby(workers["run_id"]).agg(lambda texts: ",".join(sorted(set(texts))))
    of_run = runs[["run_id", "device"]].copy()
    of_run["conditions"] = runs["device"] + ";" + runs["driver_version"] + ";" + runs["run_id"].map(versions)
    ranked = outcomes.merge(of_run, on="run_id")
    ranked["incomplete"] = ranked["outcome"] == "incomplete"
    ranked = ranked.sort_values([*WHERE, "incomplete", "run_id"], ascending=[True] * 4 + [False])
    grouped = ranked.groupby(_WHERE)
    telling = ranked["outcome"].isin(["win", "tie"]) & (
        ranked["conditions"] == grouped["conditions"].transform("first")
    )
    said = ranked["house"].fillna("nobody").where(telling)
    ranked["sayings"] = said.groupby([ranked[name] for name in WHERE]).transform("nunique")
    ranked["runs"] = grouped["run_id"].transform("size")
    speaking = ranked.drop_duplicates(_WHERE).copy()
    split = (speaking["sayings"] > 1) & ~speaking["incomplete"]
    speaking["outcome"] = speaking["outcome"].mask(split, "inconclusive")
    speaking["winner"] = speaking["winner"].mask(split)
    return speaking
