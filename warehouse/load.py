"""Lake files become DuckDB tables: every row of every readable file, each identity once.

Nothing is dropped in silence: a file that cannot be read, or whose values break the contract, is left out
and listed with the reason; two rows of one identity that differ are listed as a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from warehouse import sql
from warehouse.errors import BuildError
from warehouse.lake import CONFLICT, DAMAGED, FOREIGN, OK, LakeFile, LakeScan, Stray, scan
from warehouse.schema import TABLES

_SHOWN = 3


@dataclass
class Loaded:
    """What was loaded: every file with its final status, rows by table, and repeated identities."""

    files: list[LakeFile] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)  # rows left out because their identity was there
    conflicts: list[str] = field(default_factory=list)  # one sentence each
    strays: list[Stray] = field(default_factory=list)  # what lies in the lakes and is no file of a table

    @property
    def unreadable(self) -> list[LakeFile]:
        """Files that were left out."""
        return [file for file in self.files if file.status not in (OK, CONFLICT)]


def load(
    con: duckdb.DuckDBPyConnection, lakes: Sequence[Path], tables: Sequence[str] = tuple(TABLES)
) -> Loaded:
    """Create ``tables`` in the main schema of ``con`` from the files of ``lakes``; absent ones are empty.

    Every page is compared with its checksum first: DuckDB would take a changed value for a measurement.
    """
    scans = [scan(lake, deep=True) for lake in lakes]
    loaded = Loaded(strays=[stray for one in scans for stray in one.strays])
    for table in tables:
        load_table(con, table, _entries(scans, table), loaded)
    return loaded


def load_table(
    con: duckdb.DuckDBPyConnection, table: str, entries: Sequence[LakeFile], loaded: Loaded
) -> None:
    """Create one table from ``entries``, and add what happened to ``loaded``."""
    entries = _create(con, table, list(entries))
    entries = _without_unfit(con, table, entries)
    (unproven,) = _row(con, sql.unproven(table))
    if unproven and any(_row(con, sql.repeated_rows(table))):
        entries = _once(con, table, entries, loaded)
    (loaded.rows[table],) = _row(con, f"SELECT count(*) FROM {table}")
    loaded.files += entries


def _entries(scans: Sequence[LakeScan], table: str) -> list[LakeFile]:
    return [entry for one in scans for entry in one.entries if entry.table == table]


def _create(con: duckdb.DuckDBPyConnection, table: str, entries: list[LakeFile]) -> list[LakeFile]:
    """Read all readable files; where that breaks, leave out those that break alone."""
    try:
        con.execute(sql.create(table, select_files(table, entries)))
    except duckdb.Error as error:
        if is_environment(error):
            raise
        judged = [_alone(con, entry) if entry.status == OK else entry for entry in entries]
        if judged == entries:
            raise BuildError(f"The files of {table} cannot be read together: {first_line(error)}.") from None
        return _create(con, table, judged)
    return entries


def _alone(con: duckdb.DuckDBPyConnection, entry: LakeFile) -> LakeFile:
    """Judge a file by what DuckDB says when it reads all of it."""
    try:
        con.execute(f"SELECT sum(hash(COLUMNS(*))) FROM ({select_files(entry.table, [entry])})").fetchall()
    except duckdb.Error as error:
        if is_environment(error):
            raise
        return replace(entry, status=DAMAGED, reason=first_line(error))
    return entry


def select_files(table: str, entries: Sequence[LakeFile]) -> str:
    """Return the SELECT of every row of the readable ``entries``, with the declared columns and types."""
    readable = [entry for entry in entries if entry.status == OK]
    if not readable:
        nothing = ", ".join(f"NULL::{kind} AS {sql.quoted([name])}" for name, kind in sql.columns_of(table))
        return f"SELECT {nothing} WHERE FALSE"
    present = frozenset[str]().union(*(entry.columns for entry in readable))
    columns = ", ".join(
        f"{sql.quoted([name]) if name in present else 'NULL'}::{kind} AS {sql.quoted([name])}"
        for name, kind in sql.columns_of(table)
    )
    files = ", ".join(sql.literal(str(entry.path)) for entry in readable)
    # hive_partitioning off: a folder named run_id=1 above the lake would replace the column of that name.
    return f"SELECT {columns} FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)"


def _without_unfit(con: duckdb.DuckDBPyConnection, table: str, entries: list[LakeFile]) -> list[LakeFile]:
    """Leave out files whose values break the contract: NaN, infinity, NULL where a value is required.

    Files written by :mod:`warehouse.append` cannot hold such values; others can.
    """
    counts = sql.unfit_counts(table)
    unfit = _row(con, f"SELECT {', '.join(counts.values())} FROM {table}")
    if not any(unfit):
        return entries
    judged = []
    for entry in entries:
        if entry.status == OK:
            found = _row(con, f"SELECT {', '.join(counts.values())} FROM ({select_files(table, [entry])})")
            bad = next((what for what, n in zip(counts, found, strict=True) if n), None)
            if bad is not None:
                entry = replace(entry, status=FOREIGN, reason=bad)  # noqa: PLW2901 - the judged entry
        judged.append(entry)
    return _create(con, table, judged)


def _once(
    con: duckdb.DuckDBPyConnection, table: str, entries: list[LakeFile], loaded: Loaded
) -> list[LakeFile]:
    """Keep one row of each identity, whatever order the files came in; mark files that disagree."""
    (before,) = _row(con, f"SELECT count(*) FROM {table}")
    con.execute(f"CREATE OR REPLACE TEMP TABLE conflicting AS {sql.differing(table)}")
    con.execute(sql.kept_first(table))
    (after,) = _row(con, f"SELECT count(*) FROM {table}")
    loaded.repeated[table] = before - after
    disagreeing = con.execute("SELECT * FROM conflicting ORDER BY ALL").fetchall()
    if not disagreeing:
        return entries
    shown = "; ".join(_identity(table, row) for row in disagreeing[:_SHOWN])
    more = f"; and {len(disagreeing) - _SHOWN} more" if len(disagreeing) > _SHOWN else ""
    loaded.conflicts.append(f"{table}: the same identity with different values: {shown}{more}")
    marked = []
    for entry in entries:
        if entry.status == OK:
            keys = sql.quoted(TABLES[table].identity)
            rows = con.execute(
                f"SELECT {keys} FROM ({select_files(table, [entry])}) "
                f"SEMI JOIN conflicting USING ({keys}) ORDER BY ALL LIMIT 1"
            ).fetchall()
            if rows:
                reason = f"{_identity(table, rows[0])} stands in the lake with another value too"
                entry = replace(entry, status=CONFLICT, reason=reason)  # noqa: PLW2901 - the judged entry
        marked.append(entry)
    return marked


def _identity(table: str, row: tuple[object, ...]) -> str:
    return ", ".join(f"{k} {v}" for k, v in zip(TABLES[table].identity, row, strict=True))


def _row(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    (row,) = con.execute(query).fetchall()  # fetched to its end: a result half read blocks the connection
    return tuple(row)


def is_environment(error: duckdb.Error) -> bool:
    """Whether a full disk, a lack of memory or an interrupt is to blame, and neither a file nor a query."""
    kinds = duckdb.OutOfMemoryException | duckdb.InterruptException | duckdb.TransactionException
    text = str(error).lower()
    return isinstance(error, kinds | duckdb.FatalException) or (
        "no space left" in text or "could not write" in text or "failed to write" in text
    )


def first_line(error: Exception) -> str:
    """Return what an exception says, in one line without its final stop."""
    return " ".join(str(error).split())[:300].rstrip(".")
