"""What a lake holds, from the footers of its files and the events of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from warehouse.lake import OK, LakeFile, require, scan
from warehouse.load import load
from warehouse.schema import TABLES


@dataclass(frozen=True)
class Run:
    """A registered run and its last event; times are UTC."""

    run_id: str
    producer: str
    device: str | None
    last_event: str
    last_event_at: datetime


@dataclass(frozen=True)
class Status:
    """Readable (files, rows) by table, runs in the order of their identifiers, and files left out."""

    tables: dict[str, tuple[int, int]]
    runs: list[Run]
    unreadable: list[LakeFile]


def status(lakes: Sequence[Path]) -> Status:
    """Summarise ``lakes``; rows that stand in two files count twice here.

    Raises:
        NoLakeError: a lake is no folder.
        StorageError: a folder cannot be listed.
    """
    require(lakes)
    entries = [entry for lake in lakes for entry in scan(lake).entries]
    tables = {}
    for table in TABLES:
        of_table = [e.rows or 0 for e in entries if e.table == table and e.status == OK]
        tables[table] = (len(of_table), sum(of_table))
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        loaded = load(con, lakes, ["runs"])
        rows = con.execute(
            "SELECT run_id, arg_min(producer, event_seq), arg_min(device, event_seq), "
            "arg_max(event, event_seq), (max(recorded_at) AT TIME ZONE 'UTC') "
            "FROM runs GROUP BY run_id ORDER BY run_id"
        ).fetchall()
    unreadable = {e.path: e for e in entries if e.status != OK}
    unreadable.update({e.path: e for e in loaded.unreadable})
    return Status(tables, [Run(*row) for row in rows], [unreadable[path] for path in sorted(unreadable)])
