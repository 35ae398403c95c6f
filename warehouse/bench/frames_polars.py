"""The winners of a lake from its Parquet files in polars, by the rules of ``queries/views``.

Only what the bench's lakes exercise: one policy, no datasheet of the device, one card and one L2 state a run,
equal versions of torch and Triton. Comments name the view that each step follows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

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

_UNKNOWN = pl.lit(None, dtype=pl.String)


def winners(lake: Path) -> list[tuple[Any, ...]]:
    """Return the winners as rows of WHERE and FOUND.

    Raises:
        ValueError: a sample stands in the lake twice.
    """
    rules = read_rules(lake)
    rounds = _round_medians(lake)
    entries = _entries(lake, rounds, rules)
    duels = _duels(rounds, entries, rules).join(_tie_bands(lake, rounds, rules), on=["run_id", "timing_mode"])
    outcomes = _outcomes(entries, _records(duels), _shuffled(rounds), rules)
    return _speaking(lake, outcomes).select(*WHERE, *FOUND).rows()


def _read(lake: Path, table: str) -> pl.DataFrame:
    return pl.scan_parquet(files(lake, table)).collect()


def _round_medians(lake: Path) -> pl.DataFrame:
    """round_medians; a repeated sample is noticed where it would enter a median."""
    time = pl.col("time_us")
    rounds = (
        pl.scan_parquet(files(lake, "samples"))
        .group_by(*ENTRY, "round")
        .agg(
            time.filter(time > 0).median().alias("median_us"),
            (time <= 0).sum().alias("invalid"),
            pl.col("session").min(),
            pl.col("position").min(),
            (pl.len() - pl.col("sample").n_unique()).alias("repeated"),
        )
        .collect(engine="streaming")
    )
    if rounds["repeated"].sum():
        raise ValueError("a sample stands in the lake twice")
    return rounds


def _entries(lake: Path, rounds: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """contestant_status and required_field: every required contestant of every cell and mode."""
    started = _read(lake, "runs").filter(pl.col("event_seq") == 0).select("run_id", "device", "plan_json")
    modes = pl.DataFrame(
        [(run, mode) for run, _, plan in started.rows() for mode in modes_of(plan)],
        schema=["run_id", "timing_mode"],
        orient="row",
    )
    rosters = _read(lake, "rosters")
    houses = rosters.select("contestant", "house").unique()
    cells = _read(lake, "cells").select("run_id", "cell_id", "precision")
    precisions = cells.select("run_id", "precision").unique().join(started, on="run_id")
    by_policy = pl.DataFrame(
        [
            (run, precision, name)
            for run, precision, device, _ in precisions.rows()
            for name in rules.policy.required(device, precision)
        ],
        schema=["run_id", "precision", "contestant"],
        orient="row",
    )
    by_roster = rosters.filter(pl.col("role") == "required").select(by_policy.columns)
    required = pl.concat([by_policy, by_roster]).unique().join(houses, on="contestant")
    measured = rounds.group_by(ENTRY).agg(
        pl.col("median_us").count().alias("rounds"),
        pl.col("session").filter(pl.col("median_us").is_not_null()).n_unique().alias("sessions"),
        pl.col("invalid").sum(),
        pl.col("median_us").median().alias("time_us"),
    )
    enough = pl.col("rounds") >= rules.min_rounds
    present = (
        (pl.col("rounds") > 0)
        & (pl.col("invalid") == 0)
        & pl.col("passed")
        & pl.col("latest_passed")
        & ~pl.col("own_fault")
    )
    most = pl.col("rounds").filter(present).max().over(CELL)
    return (
        cells.join(modes, on="run_id")
        .join(required, on=["run_id", "precision"])
        .join(measured, on=ENTRY, how="left")
        .join(_verdicts(lake, modes), on=ENTRY, how="left")
        .with_columns(
            pl.col("rounds", "sessions", "invalid").fill_null(0),
            pl.col("passed", "own_fault").fill_null(value=False),
            pl.col("latest_passed").fill_null(value=True),
        )
        .with_columns((present & (enough | (pl.col("rounds") == most))).alias("usable"))
    )


def _verdicts(lake: Path, modes: pl.DataFrame) -> pl.DataFrame:
    """verdict_summary: those of mode 'all' hold for every mode of the run."""
    verdicts = _read(lake, "verdicts")
    each = verdicts.filter(pl.col("timing_mode") != "all")
    every = verdicts.filter(pl.col("timing_mode") == "all").drop("timing_mode").join(modes, on="run_id")
    stage = pl.col("stage").replace_strict(STAGES, range(len(STAGES)), return_dtype=pl.Int32)
    passed = pl.col("status") == "passed"
    return (
        pl.concat([each, every.select(each.columns)])
        .group_by(ENTRY)
        .agg(
            (passed & pl.col("stage").is_in(COMPARED)).any().alias("passed"),
            (~passed & (pl.col("fault") == "contestant").fill_null(value=False)).any().alias("own_fault"),
            passed.sort_by("recorded_at", "session", stage, pl.col("reason_code").fill_null(""))
            .last()
            .alias("latest_passed"),
        )
    )


def _tie_bands(lake: Path, rounds: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """noise_floors, over the control's rounds in all cells of a run."""
    controls = _read(lake, "rosters").filter(pl.col("role") == "control")
    pairs = controls.select("run_id", "contestant", "control_of").unique()
    medians = rounds.select(*ENTRY, "round", "median_us").drop_nulls("median_us")
    repeated = medians.join(pairs, on=["run_id", "contestant"])
    original = medians.rename({"contestant": "control_of", "median_us": "original_us"})
    return (
        repeated.join(original, on=[*CELL, "round", "control_of"])
        .group_by("run_id", "timing_mode")
        .agg(
            (pl.col("median_us") / pl.col("original_us") - 1)
            .abs()
            .quantile(rules.noise_quantile, "linear")
            .clip(lower_bound=rules.tie_band)
            .alias("band")
        )
    )


def _shuffled(rounds: pl.DataFrame) -> pl.DataFrame:
    """round_orders."""
    return (
        rounds.group_by("run_id", "timing_mode", "contestant")
        .agg(pl.col("position").n_unique())
        .group_by("run_id", "timing_mode")
        .agg((pl.col("position").max() > 1).alias("shuffled"))
    )


def _duels(rounds: pl.DataFrame, entries: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """ratios: between usable required contestants of different houses."""
    usable = entries.filter("usable").select(*ENTRY, "house", "time_us")
    medians = rounds.drop_nulls("median_us").select(*ENTRY, "round", "median_us").join(usable, on=ENTRY)
    rivals = medians.select(
        *CELL, "round", rival="contestant", rival_us="median_us", rival_house="house"
    )  # fmt: skip
    speedups = (
        medians.join(rivals, on=[*CELL, "round"])
        .filter(pl.col("house") != pl.col("rival_house"))
        .group_by(*ENTRY, "rival")
        .agg(
            (pl.col("rival_us") / pl.col("median_us")).sort().alias("speedups"),
            pl.col("time_us").first(),
            pl.len().cast(pl.Int64).alias("rounds"),
        )
    )
    sizes = speedups["rounds"].unique().to_list()
    ranks = pl.DataFrame(
        {"rounds": sizes, "rank": [rank(n, rules.confidence) for n in sizes]},
        schema={"rounds": pl.Int64, "rank": pl.Int64},
    )
    values = pl.col("speedups").list
    return (
        speedups.join(ranks, on="rounds")
        .with_columns(
            values.median().alias("speedup"),
            values.get(pl.col("rank") - 1).alias("lo"),
            values.get(pl.col("rounds") - pl.col("rank")).alias("hi"),
        )
        .drop("speedups")
    )


def _records(duels: pl.DataFrame) -> pl.DataFrame:
    """required_records: each contestant against all its rivals; the nearest of them."""
    nearest = pl.struct("rival", "speedup", "lo", "hi").sort_by("speedup", "rival").first()
    level = (pl.col("lo") >= 1 / (1 + pl.col("band"))) & (pl.col("hi") <= 1 + pl.col("band"))
    return duels.group_by(ENTRY).agg(
        (pl.col("lo") > 1 + pl.col("band")).fill_null(value=False).all().alias("beats_all"),
        level.any().alias("level"),
        pl.col("lo").is_null().any().alias("no_interval"),
        pl.col("rounds").min().alias("shared"),
        pl.col("time_us").first(),
        nearest.alias("nearest"),
    )


def _outcomes(
    entries: pl.DataFrame, records: pl.DataFrame, shuffled: pl.DataFrame, rules: Rules
) -> pl.DataFrame:
    """run_outcomes: what each run alone says."""
    usable = pl.col("usable")
    fastest = pl.col("contestant").sort_by("time_us", "contestant")
    fields = entries.group_by(CELL).agg(
        (~usable & ~pl.col("own_fault")).any().alias("missing"),
        usable.sum().alias("entrants"),
        pl.col("house").filter(usable).n_unique().alias("houses"),
        pl.col("rounds").filter(usable).min(),
        pl.col("sessions").filter(usable).min(),
        pl.col("contestant", "time_us").filter(usable).sort_by(
            pl.col("time_us").filter(usable), pl.col("contestant").filter(usable)
        ).first().name.prefix("first_"),
    )  # fmt: skip
    against = records.group_by(CELL).agg(
        fastest.filter(pl.col("beats_all").sort_by("time_us", "contestant")).first().alias("champion"),
        pl.col("no_interval").any(),
        pl.col("shared").min(),
    )
    levels = records.select(*CELL, "level", first_contestant="contestant")
    outcome = (
        pl.when(pl.col("missing") | (pl.col("entrants") == 0))
        .then(pl.lit("incomplete"))
        .when(pl.col("houses") <= 1)
        .then(pl.lit("sole entrant"))
        .when(
            ~pl.col("shuffled").fill_null(value=True)
            | (pl.min_horizontal("rounds", "shared") < rules.min_rounds)
            | (pl.col("sessions") < rules.min_sessions)
            | pl.col("no_interval")
        )
        .then(pl.lit("inconclusive"))
        .when(pl.col("champion").is_not_null())
        .then(pl.lit("win"))
        .when("level")
        .then(pl.lit("tie"))
        .otherwise(pl.lit("inconclusive"))
    )
    ahead = (
        pl.when(pl.col("outcome") == "win")
        .then("champion")
        .when(pl.col("outcome").is_in(["tie", "inconclusive"]))
        .then("first_contestant")
    )
    houses = entries.select(*ENTRY, "house").rename({"contestant": "leader"})
    nearest = records.select(*CELL, "nearest", leader="contestant").unnest("nearest")
    return (
        fields.join(against, on=CELL, how="left")
        .join(levels, on=[*CELL, "first_contestant"], how="left")
        .join(shuffled, on=["run_id", "timing_mode"], how="left")
        .with_columns(outcome.alias("outcome"))
        .with_columns(ahead.alias("leader"))
        .join(houses, on=[*CELL, "leader"], how="left")
        .join(nearest, on=[*CELL, "leader"], how="left")
        .with_columns(
            pl.when(pl.col("outcome") == "win").then("leader").otherwise(_UNKNOWN).alias("winner"),
            pl.when(pl.col("outcome") == "win").then("house").otherwise(_UNKNOWN).alias("house"),
        )
        .rename({"rival": "runner_up", "speedup": "margin", "lo": "margin_lo", "hi": "margin_hi"})
    )


def _speaking(lake: Path, outcomes: pl.DataFrame) -> pl.DataFrame:
    """winners: the latest complete run speaks, unless equal runs disagree."""
    runs = _read(lake, "runs").filter(pl.col("event_seq") == 0)
    versions = (
        _read(lake, "workers")
        .group_by("run_id")
        .agg(pl.concat_str("contestant", "package_version", "source_sha256", separator=":").unique().sort())
        .with_columns(pl.col("contestant").list.join(",").alias("versions"))
    )
    conditions = pl.concat_str("device", "driver_version", "versions", separator=";")
    of_run = runs.join(versions, on="run_id").select("run_id", "device", conditions.alias("conditions"))
    ranked = outcomes.join(of_run, on="run_id").sort(
        *WHERE, pl.col("outcome") == "incomplete", "run_id", descending=[False] * 4 + [True]
    )
    first = pl.col("conditions").first()
    said = pl.col("house").fill_null("nobody")
    telling = pl.col("outcome").is_in(["win", "tie"]) & (pl.col("conditions") == first)
    split = (pl.col("sayings") > 1) & (pl.col("outcome") != "incomplete")
    return (
        ranked.group_by(WHERE, maintain_order=True)
        .agg(
            said.filter(telling).n_unique().alias("sayings"),
            pl.len().alias("runs"),
            pl.exclude("conditions", "house", "runs").first(),
        )
        .with_columns(
            pl.when(split).then(pl.lit("inconclusive")).otherwise("outcome").alias("outcome"),
            pl.when(split).then(_UNKNOWN).otherwise("winner").alias("winner"),
        )
    )
