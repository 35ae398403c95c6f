"""Create-only append: a file is in the lake whole or not at all, and is never changed afterwards."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.cast import Rows, cast
from warehouse.errors import StorageError, storage_error
from warehouse.ids import new_file_name

TEMPORARY_SUFFIX = ".tmp"

_ROWS_PER_GROUP = 1 << 20
_ATTEMPTS = 8


def append(lake: Path, table: str, rows: Rows | pa.Table) -> Path | None:
    """Add ``rows`` to ``table`` of ``lake`` as one new file.

    The file is written under a temporary name in the table's folder, synced, and linked to its final name,
    which fails if that exists; when this returns, the rows survive a crash of the machine.

    Args:
        lake: the lake's folder; it and the table's folder are created where they are absent.
        table: name of a table of :mod:`warehouse.schema`.
        rows: dictionaries, or an Arrow table.

    Returns:
        The new file, or None where there were no rows (then nothing is written).

    Raises:
        SchemaError: the rows do not fit; nothing is written.
        StorageError: the folder cannot be written (read-only, full disk, no free name).
    """
    data = cast(table, rows)
    if data.num_rows == 0:
        return None
    folder = lake / table
    what = f"cannot append {data.num_rows} rows of {table} to {lake}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(what, error) from None
    temporary = folder / f".{new_file_name()}{TEMPORARY_SUFFIX}"
    try:
        write_parquet(data, temporary)
        final = _publish(temporary, folder)
    except OSError as error:
        raise storage_error(what, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return final


def write_parquet(data: pa.Table, path: Path) -> None:
    """Write and sync a new file; ``path`` must not exist.

    Page checksums are written, so that ``warehouse verify`` notices a flipped bit that still decodes.

    Raises:
        OSError: the file exists or cannot be written.
    """
    repeating = [
        f.name for f in data.schema if not pa.types.is_floating(f.type) and not pa.types.is_list(f.type)
    ]
    with path.open("xb") as file:
        pq.write_table(
            data,
            file,
            compression="zstd",
            compression_level=1,
            use_dictionary=repeating,
            row_group_size=_ROWS_PER_GROUP,
            write_page_checksum=True,
        )
        file.flush()
        os.fsync(file.fileno())


def _publish(temporary: Path, folder: Path) -> Path:
    """Give a finished file its final name, never one that is taken, and sync the folder."""
    for _ in range(_ATTEMPTS):
        final = folder / new_file_name()
        try:
            os.link(temporary, final)
        except FileExistsError:
            continue
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return final
    raise StorageError(
        f"{folder} has no free file name after {_ATTEMPTS} attempts; check its clock and files."
    )
