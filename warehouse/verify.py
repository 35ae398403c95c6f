"""Everything that can be wrong with a lake, found by reading all of it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from checks.policy import PolicyError, load_policy, values
from warehouse.errors import BuildError, storage_error
from warehouse.lake import OK, Stray, require
from warehouse.load import Loaded, first_line, load
from warehouse.options import FINDINGS, PARTIAL
from warehouse.options import OK as CLEAN
from warehouse.schema import TABLES

_DAMAGE = frozenset({"damaged", "foreign"})
_TEMPORARY_BASE = "verify.db"


@dataclass(frozen=True, order=True)
class Finding:
    """Something false: its kind (damaged, foreign, conflict, run, policy, samples) and one sentence."""

    kind: str
    text: str


@dataclass(frozen=True)
class Verification:
    """What was read, what is wrong with it, and notes about files that were not read."""

    files: int
    rows: int
    runs: int
    findings: list[Finding]
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """Return 3 where files are damaged, 1 where anything else was found, else 0."""
        if any(finding.kind in _DAMAGE for finding in self.findings):
            return PARTIAL
        return FINDINGS if self.findings else CLEAN


def verify(lakes: Sequence[Path], policy: Path | None = None) -> Verification:
    """Read every page of ``lakes`` against its checksum, and judge the rows together.

    Args:
        lakes: folders of lakes, judged as one.
        policy: the policy of today; None means the one of the package.

    Raises:
        NoLakeError: a lake is no folder.
        PolicyError: the policy of today is malformed.
        StorageError: a folder cannot be listed, or no temporary file can be written.
    """
    require(lakes)
    today = load_policy(policy).sha256
    try:
        # A database on disk, because a lake may be larger than memory.
        with (
            tempfile.TemporaryDirectory(prefix="warehouse-") as folder,
            duckdb.connect(str(Path(folder) / _TEMPORARY_BASE)) as con,
        ):
            con.execute("SET enable_progress_bar = false")
            con.execute("SET preserve_insertion_order = false")
            loaded = load(con, lakes)
            findings = [*_files(loaded), *_runs(con), *_policies(con, today), *_samples(con)]
            runs = _ask(con, "SELECT count(DISTINCT run_id) FROM runs")[0][0]
    except OSError as error:
        raise storage_error("cannot write a temporary database", error) from None
    except duckdb.Error as error:
        raise BuildError(f"The lake cannot be judged: {first_line(error)}.") from None
    read = sum(1 for file in loaded.files if file not in loaded.unreadable)
    return Verification(
        read, sum(loaded.rows.values()), runs, findings, [_note(stray) for stray in loaded.strays]
    )


def _note(stray: Stray) -> str:
    return f"{stray.path}: {stray.reason}"


def _files(loaded: Loaded) -> Iterator[Finding]:
    for file in loaded.files:
        if file.status != OK:
            yield Finding(file.status, f"{file.path}: {file.reason}")
    for conflict in loaded.conflicts:
        yield Finding("conflict", conflict)


def _runs(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Runs that are mentioned and not registered, that lack an event, or never finished."""
    mentions = " UNION ALL ".join(
        f"SELECT DISTINCT run_id, '{name}' AS mentioned_in FROM {name}"
        for name, table in TABLES.items()
        if "run_id" in table.columns and name != "runs"
    )
    for run, places in _ask(
        con,
        f"SELECT run_id, string_agg(mentioned_in, ', ' ORDER BY mentioned_in) FROM ({mentions}) "
        "WHERE run_id IS NOT NULL AND run_id NOT IN (SELECT run_id FROM runs) GROUP BY 1 ORDER BY 1",
    ):
        yield Finding("run", f"{run} is mentioned in {places} and missing in runs")
    for run, first, last, count in _ask(
        con,
        "SELECT run_id, min(event_seq), max(event_seq), count(*) FROM runs GROUP BY 1 "
        "HAVING min(event_seq) <> 0 OR max(event_seq) <> count(*) - 1 ORDER BY 1",
    ):
        yield Finding("run", f"{run} has {count} events, numbered {first} to {last}: an event is missing")
    for run, event in _ask(
        con,
        "SELECT run_id, arg_max(event, event_seq) FROM runs GROUP BY 1 "
        "HAVING arg_max(event, event_seq) <> 'finished' ORDER BY 1",
    ):
        yield Finding("run", f"{run} never finished; its last event is '{event}'")


def _policies(con: duckdb.DuckDBPyConnection, today: str) -> Iterator[Finding]:
    """Policies that are not what they were registered as, and drift of today's file from the newest run's."""
    for sha256, text in _ask(con, "SELECT policy_sha256, policy_toml FROM policies ORDER BY 1"):
        if hashlib.sha256(text.encode()).hexdigest() != sha256:
            yield Finding("policy", f"the text stored as {sha256[:12]} has another hash: it was changed")
        try:
            values(text)
        except PolicyError as error:
            yield Finding("policy", f"the text stored as {sha256[:12]} is {error}")
    for run, sha256 in _ask(
        con,
        "SELECT DISTINCT run_id, policy_sha256 FROM runs WHERE policy_sha256 IS NOT NULL "
        "AND policy_sha256 NOT IN (SELECT policy_sha256 FROM policies) ORDER BY ALL",
    ):
        yield Finding("policy", f"{run} was measured under {sha256[:12]}, whose text is not in policies")
    for (run,) in _ask(
        con,
        "SELECT run_id FROM runs WHERE policy_sha256 IS NOT NULL GROUP BY 1 "
        "HAVING count(DISTINCT policy_sha256) > 1 ORDER BY 1",
    ):
        yield Finding("policy", f"{run} changed its policy between its events")
    for run, sha256 in _ask(
        con,
        "SELECT run_id, policy_sha256 FROM runs WHERE policy_sha256 IS NOT NULL "
        "ORDER BY run_id DESC, event_seq DESC LIMIT 1",
    ):
        if sha256 != today:
            yield Finding(
                "policy",
                f"the policy of today ({today[:12]}) is not that of the newest run {run} ({sha256[:12]}); "
                "its results are judged by the policy that it was measured under",
            )


def _samples(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Samples of a cell or a contestant that the run never announced."""
    con.execute(
        "CREATE TEMP TABLE sampled AS "
        "SELECT run_id, cell_id, contestant, count(*) AS samples FROM samples GROUP BY ALL"
    )
    for run, cell, samples in _ask(
        con,
        "SELECT run_id, cell_id, sum(samples)::BIGINT FROM sampled ANTI JOIN cells USING (run_id, cell_id) "
        "GROUP BY ALL ORDER BY ALL",
    ):
        yield Finding("samples", f"{run} has {samples} samples of {cell}, and no such cell in cells")
    for run, contestant, samples in _ask(
        con,
        "SELECT run_id, contestant, sum(samples)::BIGINT FROM sampled "
        "ANTI JOIN (rosters JOIN cells USING (run_id, precision)) USING (run_id, cell_id, contestant) "
        "SEMI JOIN cells USING (run_id, cell_id) GROUP BY ALL ORDER BY ALL",
    ):
        yield Finding(
            "samples", f"{run} has {samples} samples of {contestant}, and its roster has no such entry"
        )


def _ask(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()
