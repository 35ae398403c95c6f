"""A database for the length of one command, on disk because a lake may be larger than memory."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from warehouse.errors import BuildError, storage_error
from warehouse.load import first_line


@contextlib.contextmanager
def scratch_database(what: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a temporary database; ``what`` opens the sentence where something breaks.

    Raises:
        StorageError: no temporary file can be written.
        BuildError: a query broke.
    """
    try:
        with (
            tempfile.TemporaryDirectory(prefix="warehouse-") as folder,
            duckdb.connect(str(Path(folder) / "scratch.db")) as con,
        ):
            con.execute("SET TimeZone = 'UTC'")
            con.execute("SET enable_progress_bar = false")
            con.execute("SET preserve_insertion_order = false")
            yield con
    except OSError as error:
        raise storage_error(what, error) from None
    except duckdb.Error as error:
        raise BuildError(f"{what}: {first_line(error)}.") from None
