"""Whether a warehouse still is what its lakes hold.

Files of a lake are written once and never changed, so that their names say everything: a file that the
warehouse does not list came later, one that it lists and the lake lacks is gone.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from checks.errors import ChecksError
from warehouse.schema import TABLES

CURRENT, NOT_AT_HAND = "current", "not at hand"


def lake_states(con: duckdb.DuckDBPyConnection, lakes: list[Path] | None) -> list[tuple[str, str]]:
    """Return (lake, state) for the lakes together; without ``lakes`` those that the warehouse names.

    Raises:
        ChecksError: a lake that was asked for is no folder.

    """
    listed = con.execute("SELECT lake, table_name, file FROM lake_files").fetchall()
    for lake in lakes or ():
        if not lake.is_dir():
            raise ChecksError(f"there is no lake at {lake}; name one with --lake")
    folders = lakes or sorted({Path(lake) for lake, _, _ in listed})
    if not folders:
        folders = [Path("lake")]
    name = ", ".join(str(f) for f in folders)
    if not all(f.is_dir() for f in folders):
        return [(name, NOT_AT_HAND)]
    held = {(table, Path(file).name) for _, table, file in listed}
    present = {(t, f.name) for folder in folders for t in TABLES for f in (folder / t).glob("*.parquet")}
    newer, gone = len(present - held), len(held - present)
    changes = [f"{n} files {what}" for n, what in ((newer, "came later"), (gone, "are gone")) if n]
    return [(name, " and ".join(changes) or CURRENT)]
