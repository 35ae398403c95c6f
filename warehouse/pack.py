"""A lake in few files, for machines with narrow transfers.

A pack is a folder of ``TABLE-NN.parquet`` and ``manifest.json`` with the SHA-256 of each. Rows are sorted
by identity and stand once, so that equal lakes give equal packs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.cast import cast
from warehouse.errors import ConflictError, StorageError, storage_error
from warehouse.lake import DAMAGED, LakeFile, LakeScan, Stray, inspect, require
from warehouse.load import load
from warehouse.schema import SCHEMA_VERSION, TABLES
from warehouse.scratch import scratch_database
from warehouse.sql import quoted

MANIFEST = "manifest.json"
FORMAT = "moe-race lake pack"
MAX_BYTES = 16_000_000

_ROWS_PER_GROUP = 1 << 18


@dataclass(frozen=True)
class PackReport:
    """What was packed: the files written with their sizes in bytes, rows by table, and what was left out."""

    files: dict[str, int]
    rows: dict[str, int]
    unreadable: tuple[LakeFile, ...]
    strays: tuple[Stray, ...]


def pack(lakes: Sequence[Path], out: Path, max_bytes: int = MAX_BYTES) -> PackReport:
    """Write the readable rows of ``lakes`` into ``out``, which must be new or empty.

    Args:
        lakes: folders of lakes.
        out: folder of the pack.
        max_bytes: largest size of a file in bytes.

    Raises:
        NoLakeError: a lake is no folder.
        ConflictError: one identity stands in the lake with two values.
        StorageError: ``out`` is not empty, lies in a lake, or cannot be written; nothing is left there.
    """
    require(lakes)
    if any(out.resolve().is_relative_to(lake.resolve()) for lake in lakes):
        raise StorageError(f"{out} lies in the lake itself; name a folder outside of it for the pack.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} is there already and not empty; name a new folder for the pack.")
    with scratch_database(f"cannot pack {', '.join(map(str, lakes))}") as con:
        loaded = load(con, lakes)
        if loaded.conflicts:
            raise ConflictError(f"{loaded.conflicts[0]}; correct the lake before packing it.")
        written: list[dict[str, Any]] = []
        made = not out.exists()
        try:
            out.mkdir(parents=True, exist_ok=True)
            for table, rows in loaded.rows.items():
                if rows:
                    for encoded in _encoded_table(con, table, max_bytes):
                        entry = _describe(table, encoded)
                        _write(out / entry["file"], encoded.content)
                        written.append(entry)
            manifest = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "files": written}
            _write(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        except OSError as error:
            _remove(out, [file["file"] for file in written], folder=made)
            raise storage_error(f"cannot write the pack {out}", error) from None
    return PackReport(
        {file["file"]: file["bytes"] for file in written},
        {table: rows for table, rows in loaded.rows.items() if rows},
        tuple(loaded.unreadable),
        tuple(loaded.strays),
    )


@dataclass(frozen=True)
class _Encoded:
    number: int
    rows: int
    content: bytes


def _describe(table: str, encoded: _Encoded) -> dict[str, Any]:
    """Return the manifest's entry of a file."""
    return {
        "file": f"{table}-{encoded.number:02d}.parquet",
        "table": table,
        "rows": encoded.rows,
        "bytes": len(encoded.content),
        "sha256": hashlib.sha256(encoded.content).hexdigest(),
    }


def _write(path: Path, content: bytes) -> None:
    """Write a new file whole, or leave none."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink()
            raise


def _remove(out: Path, names: Sequence[str], *, folder: bool) -> None:
    """Take away what a pack that failed has written."""
    with contextlib.suppress(OSError):
        for name in names:
            (out / name).unlink(missing_ok=True)
        if folder:
            out.rmdir()


def _encoded_table(con: duckdb.DuckDBPyConnection, table: str, max_bytes: int) -> Iterator[_Encoded]:
    names = quoted(TABLES[table].identity)
    found = con.sql(f"SELECT * FROM {table} ORDER BY {names}").to_arrow_table()
    # In one piece: page boundaries follow the pieces, and those follow the files that the rows came from.
    data = cast(table, found).combine_chunks()
    for number, (rows, content) in enumerate(_encoded(data, max_bytes)):
        yield _Encoded(number, rows, content)


def _encoded(data: pa.Table, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Encode ``data`` into as many files as ``max_bytes`` asks for: halves of halves."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        data,
        sink,
        compression="zstd",
        compression_level=9,
        use_dictionary=[
            f.name for f in data.schema if not pa.types.is_list(f.type) and f.type != pa.float64()
        ],
        row_group_size=_ROWS_PER_GROUP,
        write_page_checksum=True,
    )
    content = sink.getvalue().to_pybytes()
    if len(content) <= max_bytes or data.num_rows == 1:
        yield data.num_rows, content
        return
    half = data.num_rows // 2
    yield from _encoded(data.slice(0, half), max_bytes)
    yield from _encoded(data.slice(half), max_bytes)


def is_pack(folder: Path) -> bool:
    """Whether ``folder`` has a manifest."""
    return (folder / MANIFEST).is_file()


def read_pack(folder: Path) -> LakeScan:
    """Return the files of a pack, each judged by its hash and its pages, and what else lies beside them.

    Raises:
        StorageError: the manifest cannot be read, or is of something else.
    """
    place = folder / MANIFEST
    try:
        manifest = json.loads(place.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError(manifest["format"])
        listed = [(str(f["file"]), str(f["table"]), str(f["sha256"])) for f in manifest["files"]]
        present = sorted(folder.iterdir())
    except OSError as error:
        raise storage_error(f"cannot read {place}", error) from None
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"{place} is no manifest of a pack; pack the lake again.") from None
    known = {MANIFEST, *(name for name, _, _ in listed)}
    strays = [
        Stray(path, "the manifest does not list it; it is not read")
        for path in present
        if path.name not in known
    ]
    return LakeScan(folder, tuple(_judge(folder, *entry) for entry in listed), tuple(strays))


def _judge(folder: Path, name: str, table: str, sha256: str) -> LakeFile:
    path = folder / Path(name).name
    reason = None
    if table not in TABLES:
        reason = f"'{table}' is no table of the lake"
    else:
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                reason = "its SHA-256 is not that of the manifest"
        except OSError as error:
            reason = f"it cannot be read ({error.strerror})"
    if reason is not None:
        return LakeFile(folder, table, path, None, frozenset(), DAMAGED, reason)
    return inspect(folder, table, path, deep=True)
