"""Another machine's lake, or a pack of it, into the local lake: each identity once, nothing overwritten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from warehouse.append import append
from warehouse.errors import ConflictError, NoLakeError, StorageError
from warehouse.lake import LakeFile, LakeScan, Stray, scan
from warehouse.load import Loaded, load_table
from warehouse.pack import is_pack, read_pack
from warehouse.schema import TABLES
from warehouse.scratch import scratch_database
from warehouse.sql import RECORDING, quoted, value_columns

FORMAT = "lake"


@dataclass
class MergeReport:
    """Rows by table: added, and recognised because their identity is there; and what was left out."""

    added: dict[str, int] = field(default_factory=dict)
    recognised: dict[str, int] = field(default_factory=dict)
    unreadable: tuple[LakeFile, ...] = ()
    strays: tuple[Stray, ...] = ()


def import_lake(source: Path, lake: Path) -> MergeReport:
    """Add the rows of ``source`` that ``lake`` does not have.

    Nothing is added unless everything fits: every table is compared first. A second import adds nothing.

    Args:
        source: a lake or a pack.
        lake: the lake to add to; created where it is absent.

    Raises:
        NoLakeError: ``source`` is no folder, or has no file of a table.
        ConflictError: an identity has another value here than there, or two values in the source.
        StorageError: the source is the lake itself, or the lake cannot be written.
    """
    if not source.is_dir():
        raise NoLakeError(f"There is no lake or pack at {source}; name the folder that was packed or copied.")
    if lake.exists() and source.resolve() == lake.resolve():
        raise StorageError(f"{source} is the lake itself; name another machine's lake or pack.")
    with scratch_database(f"cannot compare {source} with {lake}") as con:
        con.execute("CREATE SCHEMA there")
        con.execute("CREATE SCHEMA here")
        found = _scan(source)
        there = _load(con, "there", found.entries)
        if not there.files:
            raise NoLakeError(f"{source} has no file of a lake; name the folder that was packed or copied.")
        here = _load(con, "here", scan(lake).entries)
        _refuse_conflicts(con, source, there)
        report = MergeReport(unreadable=tuple(there.unreadable), strays=found.strays)
        new = {table: _new_rows(con, table) for table in TABLES}
        for table, rows in new.items():
            append(lake, table, rows)
            report.added[table] = rows.num_rows
            report.recognised[table] = there.rows[table] - rows.num_rows
        _record(con, source, lake, there, report, known=here.rows["imports"] > 0)
    return report


def _scan(source: Path) -> LakeScan:
    return read_pack(source) if is_pack(source) else scan(source, deep=True)


def _load(con: duckdb.DuckDBPyConnection, schema: str, entries: Sequence[LakeFile]) -> Loaded:
    """Load into a schema of its own."""
    loaded = Loaded()
    con.execute(f"USE {schema}")
    for table in TABLES:
        load_table(con, table, [entry for entry in entries if entry.table == table], loaded)
    con.execute("USE main")
    return loaded


def _refuse_conflicts(con: duckdb.DuckDBPyConnection, source: Path, there: Loaded) -> None:
    if there.conflicts:
        raise ConflictError(f"{source}: {there.conflicts[0]}; nothing was imported.")
    for table in TABLES:
        identity = TABLES[table].identity
        differs = " OR ".join(
            f"h.{quoted([name])} IS DISTINCT FROM t.{quoted([name])}" for name in value_columns(table)
        )
        if not differs:
            continue
        names = ", ".join(f"t.{quoted([name])}" for name in identity)
        found = con.execute(
            f"SELECT {names} FROM there.{table} t JOIN here.{table} h USING ({quoted(identity)}) "
            f"WHERE {differs} ORDER BY ALL"
        ).fetchall()
        if found:
            what = ", ".join(f"{k} {v}" for k, v in zip(identity, found[0], strict=True))
            raise ConflictError(
                f"{table}: {what} has another value in {source} than in the lake ({len(found)} such rows); "
                "nothing was imported."
            )


def _new_rows(con: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
    """Rows whose identity is not here; of a policy also the record of an earlier registration."""
    names = quoted(TABLES[table].identity)
    same = " AND ".join(f"h.{quoted([name])} = t.{quoted([name])}" for name in TABLES[table].identity)
    if table == "policies":
        (first,) = RECORDING[table]
        same += f" AND h.{first} <= t.{first}"
    return con.sql(
        f"SELECT * FROM there.{table} t WHERE NOT EXISTS (SELECT 1 FROM here.{table} h WHERE {same}) "
        f"ORDER BY {names}"
    ).to_arrow_table()


def _record(
    con: duckdb.DuckDBPyConnection,
    source: Path,
    lake: Path,
    there: Loaded,
    report: MergeReport,
    *,
    known: bool,
) -> None:
    """Add the row of ``imports``, once for each content."""
    digest = _content(con, there)
    import_id = f"lake:{digest[:32]}"
    if known and con.execute("SELECT 1 FROM here.imports WHERE import_id = ?", [import_id]).fetchall():
        return
    refusals = [{"file": f.path.name, "status": f.status, "reason": f.reason} for f in report.unreadable]
    append(
        lake,
        "imports",
        [
            {
                "import_id": import_id,
                "recorded_at": datetime.now(UTC),
                "format": FORMAT,
                "source": source.resolve().name,
                "content_sha256": digest,
                "records_in": sum(there.rows.values()),
                "rows_out": sum(report.added.values()),
                "refused": len(refusals),
                "refusals_json": json.dumps(refusals) if refusals else None,
                "note": f"{sum(report.recognised.values())} rows were there already",
            }
        ],
    )


def _content(con: duckdb.DuckDBPyConnection, there: Loaded) -> str:
    """SHA-256 over the source's rows: the same for a lake and for packs of it."""
    digest = hashlib.sha256()
    for table in TABLES:
        ((rows,),) = con.execute(f"SELECT bit_xor(md5_number(t::VARCHAR)) FROM there.{table} t").fetchall()
        digest.update(f"{table} {there.rows[table]} {rows}\n".encode())
    return digest.hexdigest()
