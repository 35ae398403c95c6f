"""What a lake holds: its readable files by table, and everything else with the reason."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.append import TEMPORARY_SUFFIX
from warehouse.cast import same_kind
from warehouse.errors import NoLakeError, StorageError, storage_error
from warehouse.schema import SCHEMA_VERSION, TABLES

OK, DAMAGED, FOREIGN, CONFLICT = "ok", "damaged", "foreign", "conflict"

_BLOCK = 1 << 20


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file in a table's folder. ``status`` is ok, damaged, foreign or (by the build) conflict."""

    lake: Path
    table: str
    path: Path
    rows: int | None
    columns: frozenset[str]
    status: str = OK
    reason: str | None = None


@dataclass(frozen=True)
class Stray:
    """Something in a lake's folder that is no file of a table; it is never read."""

    path: Path
    reason: str


@dataclass(frozen=True)
class LakeScan:
    """The files of one lake, sorted by table and name."""

    lake: Path
    entries: tuple[LakeFile, ...]
    strays: tuple[Stray, ...]

    def files(self, table: str) -> list[Path]:
        """Return the readable files of ``table``, in name order (that of their writing)."""
        return [entry.path for entry in self.entries if entry.table == table and entry.status == OK]

    @property
    def damaged(self) -> list[LakeFile]:
        """Files that are left out: cut short, empty, unreadable, or of another schema."""
        return [entry for entry in self.entries if entry.status != OK]


def scan(lake: Path, *, deep: bool = False) -> LakeScan:
    """List the files of ``lake`` and judge each by its footer; an absent folder is an empty lake.

    Args:
        lake: the lake's folder.
        deep: read every page as well, and compare its checksum.

    Raises:
        StorageError: the folder cannot be listed.
    """
    found, strays = _walk(lake)

    def judge(place: tuple[str, Path]) -> LakeFile:
        return inspect(lake, *place, deep=deep)

    if deep:  # Arrow decodes without the interpreter's lock
        with ThreadPoolExecutor() as pool:
            return LakeScan(lake, tuple(pool.map(judge, found)), tuple(strays))
    return LakeScan(lake, tuple(map(judge, found)), tuple(strays))


def _walk(lake: Path) -> tuple[list[tuple[str, Path]], list[Stray]]:
    """List the (table, file) of a lake, sorted, and whatever else lies in it."""
    files: list[tuple[str, Path]] = []
    strays: list[Stray] = []
    try:
        for child in sorted(lake.iterdir()) if lake.exists() else ():
            if child.name in TABLES and child.is_dir():
                for path in sorted(child.iterdir()):
                    # A link that leads nowhere and a folder with such a name are files that cannot be read.
                    if path.suffix == ".parquet" and not path.name.startswith("."):
                        files.append((child.name, path))
                    else:
                        strays.append(Stray(path, _why_stray(path)))
            elif child.name in TABLES:
                files.append((child.name, child))  # what it should hold is missing: damage, not a stray
            else:
                strays.append(Stray(child, "no table of the lake has this name; it is not read"))
    except OSError as error:
        raise storage_error(f"cannot list {lake}", error) from None
    return files, strays


def inspect(lake: Path, table: str, path: Path, *, deep: bool = False) -> LakeFile:
    """Judge one Parquet file of ``table`` by its footer, and by every page where ``deep``."""
    try:
        if reason := _why_no_file(lake / table, path):
            return LakeFile(lake, table, path, None, frozenset(), DAMAGED, reason)
        if path.stat().st_size == 0:
            return LakeFile(lake, table, path, None, frozenset(), DAMAGED, "the file is empty (0 bytes)")
        metadata = pq.read_metadata(path)
        schema, rows = metadata.schema.to_arrow_schema(), metadata.num_rows
        reason = _why_foreign(table, schema)
        if reason is None and deep:
            _read_pages(path, metadata, schema)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        return LakeFile(lake, table, path, None, frozenset(), DAMAGED, reason)
    status = OK if reason is None else FOREIGN
    return LakeFile(lake, table, path, rows, frozenset(schema.names), status, reason)


def _read_pages(path: Path, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Decode every page and compare its checksum; raises what Arrow says where one is wrong."""
    # Text stays dictionary-encoded: a column of few names then costs next to nothing.
    texts = [column.name for column in schema if pa.types.is_string(column.type)]
    with pq.ParquetFile(
        path, metadata=metadata, page_checksum_verification=True, read_dictionary=texts
    ) as file:
        for batch in file.iter_batches(batch_size=_BLOCK, use_threads=False):
            batch.validate(full=True)


def fingerprint(lakes: Iterable[Path]) -> str:
    """Return the SHA-256 over the contents of every Parquet file of the lakes' tables.

    Independent of where the lakes lie and of file names: a copy has the fingerprint of its original.

    Raises:
        StorageError: a file cannot be read.
    """
    digests = []
    for lake in lakes:
        for table, path in _walk(lake)[0]:
            if not path.is_file():
                digests.append(f"{table} unreadable")
                continue
            try:
                with path.open("rb") as file:
                    digests.append(f"{table} {hashlib.file_digest(file, 'sha256').hexdigest()}")
            except OSError as error:
                raise storage_error(f"cannot read {path}", error) from None
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def require(lakes: Sequence[Path]) -> None:
    """Refuse lakes that are not there.

    Raises:
        NoLakeError: naming the first that is no folder, or that none was named.
    """
    if not lakes:
        raise NoLakeError("No lake was named; name one with --lake.")
    for lake in lakes:
        require_text(lake)
        if not lake.is_dir():
            raise NoLakeError(f"There is no lake at {lake}; run `python -m producers.race` or name another.")


def require_text(path: Path) -> None:
    """Refuse a path whose bytes are no text in the locale's encoding: DuckDB and Arrow take only text.

    Raises:
        StorageError: naming the path as far as it can be shown.
    """
    if not _is_text(path):
        shown = str(path).encode(errors="replace").decode()
        raise StorageError(f"{shown} is no text in this locale; use a UTF-8 locale, or rename it.")


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


@functools.cache
def _declared(table: str) -> pa.Schema:
    return TABLES[table].schema


def _why_foreign(table: str, schema: pa.Schema) -> str | None:
    declared = _declared(table)
    for field in schema:
        if field.name not in declared.names:
            return f"column '{field.name}' is not declared for {table} (schema version {SCHEMA_VERSION})"
        wanted = declared.field(field.name).type
        if field.type != wanted and not _stored_alike(field.type, wanted):
            return f"column '{field.name}' is {field.type}, and {table} declares {wanted}"
    missing = [field.name for field in declared if not field.nullable and field.name not in schema.names]
    return f"column '{missing[0]}' is missing, and {table} needs it" if missing else None


def _stored_alike(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether Parquet stores the two alike: forms of text, dictionaries, lists. Numbers must be equal."""
    if pa.types.is_dictionary(found):
        return found.value_type == declared or _stored_alike(found.value_type, declared)
    if pa.types.is_string(declared):
        return same_kind(found, declared) and not pa.types.is_null(found)
    if pa.types.is_list(declared) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return bool(found.value_type == declared.value_type)
    if pa.types.is_timestamp(declared) and pa.types.is_timestamp(found):
        return bool(found.unit == declared.unit and found.tz is not None)
    return False


def _why_no_file(folder: Path, path: Path) -> str | None:
    """Why ``path`` is no file of the table whose folder is ``folder``; in a pack it lies beside it."""
    if path == folder:
        return "a table is a folder of files, and this is none"
    if not _is_text(path):
        return "its name is no text in this locale"
    if path.is_file():
        return None
    return "a folder, not a file" if path.is_dir() else "a link that leads nowhere, or no plain file"


def _why_stray(path: Path) -> str:
    if path.name.endswith(TEMPORARY_SUFFIX):
        return "left over from a writer that was killed; it was never part of the lake and may be deleted"
    if path.is_dir():
        return "a folder; files of a table lie flat in its own folder, and nothing below is read"
    return "not a Parquet file of the lake; it is not read"
