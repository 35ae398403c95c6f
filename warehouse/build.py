"""The lake becomes ``warehouse.db``: tables, the policies taken apart, and the views of ``queries``.

The database is written under a temporary name and replaces the old one at the end: a reader that holds
the old file keeps it, and a build that breaks leaves it as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from pathlib import Path

import duckdb

from checks import policy
from warehouse.errors import BuildError, LockedError, StorageError, storage_error
from warehouse.lake import LakeFile, fingerprint, require, require_text
from warehouse.load import Loaded, first_line, is_environment, load
from warehouse.schema import SCHEMA_VERSION

# Readable by the `duckdb` command from PyPI, which lags behind the Python package.
STORAGE_VERSION = "v1.5.0"
MATERIALISE = "-- materialise"

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)-[0-9a-f]{8}\.building(\.wal|\.tmp)?")
_MAGIC = (8, b"DUCK")  # offset and bytes at the start of a DuckDB file


@dataclass(frozen=True)
class BuildReport:
    """What was built: rows by table, every lake file with its status, and what was left out or disagrees."""

    db: Path
    lakes: tuple[Path, ...]
    rows: dict[str, int]
    files: tuple[LakeFile, ...]
    repeated: dict[str, int]
    conflicts: tuple[str, ...]
    seconds: float

    @property
    def unreadable(self) -> list[LakeFile]:
        """Files that were left out."""
        return Loaded(files=list(self.files)).unreadable


def build(lakes: Sequence[Path], db: Path) -> BuildReport:
    """Build ``db`` from ``lakes``, replacing what was there.

    Rows with the same identity are kept once. Damaged files are left out and listed in ``lake_files``.

    Args:
        lakes: folders of lakes; their rows are put together.
        db: the database; its folder must exist.

    Raises:
        NoLakeError: a lake is no folder.
        LockedError: another process holds ``db`` open for writing.
        StorageError: ``db`` cannot be written, or is something else than a DuckDB database.
        BuildError: a view or a policy's text cannot be loaded.
    """
    start = time.perf_counter()
    require(lakes)
    refuse_locked(db)
    _sweep(db)
    temporary = db.with_name(f".{db.name}.{os.getpid()}-{secrets.token_hex(4)}.building")
    what = f"cannot write {db}"
    try:
        with _connect(temporary) as con:
            loaded = _fill(con, lakes)
            # Closing would write it too, and would say nothing where the disk is full.
            con.execute("CHECKPOINT")
        _sync(temporary)
        temporary.replace(db)
        # A log of the old file, left by a process that died, must not be replayed into the new one.
        db.with_name(f"{db.name}.wal").unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(what, error) from None
    except duckdb.OutOfMemoryException as error:
        raise BuildError(f"{what}: not enough memory ({first_line(error)}).") from None
    except duckdb.Error as error:
        # A full disk comes as an IOException, or as a failed commit or checkpoint around one.
        raise StorageError(f"{what}: {first_line(error)}; free space or name another folder.") from None
    finally:
        for left in db.parent.glob(f"{temporary.name}*"):
            _remove(left)
    return BuildReport(
        db,
        tuple(lakes),
        loaded.rows,
        tuple(loaded.files),
        loaded.repeated,
        tuple(loaded.conflicts),
        time.perf_counter() - start,
    )


@contextlib.contextmanager
def _connect(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    config: dict[str, str | bool | int | float | list[str]] = {
        "storage_compatibility_version": STORAGE_VERSION,
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
    }
    con = duckdb.connect(str(path), config=config)
    try:
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET enable_progress_bar = false")
        yield con
    finally:
        con.close()


def _fill(con: duckdb.DuckDBPyConnection, lakes: Sequence[Path]) -> Loaded:
    state = fingerprint(lakes)
    loaded = load(con, lakes)
    _policies(con)
    _listing(con, lakes, loaded, state)
    queries = resources("queries")
    for folder in ("macros", "views"):
        for script in _scripts(queries / folder):
            _run_script(con, f"queries/{folder}/{script.name}", script.read_text(encoding="utf-8"))
    return loaded


def _scripts(folder: Traversable) -> list[Traversable]:
    if not folder.is_dir():
        return []
    return sorted((s for s in folder.iterdir() if s.name.endswith(".sql")), key=lambda s: s.name)


def _run_script(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> None:
    if sql.startswith(MATERIALISE):
        sql = re.sub(r"\bCREATE VIEW\b", "CREATE TABLE", sql, count=1)
    try:
        con.execute(sql)
    except duckdb.Error as error:
        if is_environment(error):
            raise
        raise BuildError(f"{name} cannot be loaded: {first_line(error)}.") from None


def _policies(con: duckdb.DuckDBPyConnection) -> None:
    """Take every registered policy apart; a text that is no TOML has no values, and `verify` names it."""
    con.execute("CREATE TABLE policy_values (policy_sha256 VARCHAR, key VARCHAR, value VARCHAR)")
    con.execute(
        "CREATE TABLE policy_required "
        "(policy_sha256 VARCHAR, device VARCHAR, precision VARCHAR, contestant VARCHAR)"
    )
    for sha256, text in con.execute("SELECT policy_sha256, policy_toml FROM policies ORDER BY 1").fetchall():
        try:
            values, required = policy.values(text), policy.required_rivals(text)
        except policy.PolicyError:
            continue
        _insert(con, "policy_values", [(sha256, *value) for value in values])
        _insert(con, "policy_required", [(sha256, *rival) for rival in required])


def _listing(con: duckdb.DuckDBPyConnection, lakes: Sequence[Path], loaded: Loaded, state: str) -> None:
    """Write down what the database was built from."""
    con.execute(
        "CREATE TABLE lake_files (lake VARCHAR, table_name VARCHAR, file VARCHAR, rows BIGINT, "
        "status VARCHAR, reason VARCHAR)"
    )
    names = [f.path.name.encode(errors="backslashreplace").decode() for f in loaded.files]
    rows = [
        (str(f.lake), f.table, name, f.rows, f.status, f.reason)
        for f, name in zip(loaded.files, names, strict=True)
    ]
    _insert(con, "lake_files", rows)
    info = {
        "lake_fingerprint": state,
        "lakes": json.dumps([str(lake.resolve()) for lake in lakes]),
        "schema_version": str(SCHEMA_VERSION),
        "built_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "duckdb_version": duckdb.__version__,
        "repeated_rows": json.dumps(loaded.repeated, sort_keys=True),
        "conflicts": json.dumps(loaded.conflicts),
    }
    con.execute("CREATE TABLE build_info (key VARCHAR, value VARCHAR)")
    _insert(con, "build_info", list(info.items()))


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert a few thousand rows at most."""
    step = 500
    for at in range(0, len(rows), step):
        part = rows[at : at + step]
        marks = ", ".join("(" + ", ".join("?" for _ in row) + ")" for row in part)
        con.execute(f"INSERT INTO {table} VALUES {marks}", [value for row in part for value in row])


def refuse_locked(db: Path) -> None:
    """Refuse where ``db`` cannot be replaced: held for writing, somebody else's, no DuckDB file, no folder.

    Raises:
        LockedError: with what DuckDB says about the holder.
        StorageError: the place is not one for a database.
    """
    require_text(db)
    if not db.parent.is_dir():
        raise StorageError(f"{db.parent} is no folder; create it or name another place with --db.")
    if not db.exists():
        return
    if db.is_dir():
        raise StorageError(f"{db} is a folder; name a file with --db.")
    try:
        with db.open("rb") as file:
            head = file.read(_MAGIC[0] + len(_MAGIC[1]))
    except OSError as error:
        raise storage_error(f"cannot read {db}", error) from None
    if head and head[_MAGIC[0] :] != _MAGIC[1]:
        raise StorageError(f"{db} is not a DuckDB database and is left alone; name another file with --db.")
    try:
        with duckdb.connect(str(db), read_only=True) as con:
            tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            holder = re.search(r"Conflicting lock is held in (?P<who>.+?)\. ", f"{error} ")
            who = holder["who"] if holder else "another process"
            raise LockedError(
                f"{db} is open for writing in {who}; close it there, or name another file with --db."
            ) from None
    except duckdb.Error:
        return  # damaged, of another version, or open in this process: it is replaced as a whole
    else:
        if tables and "build_info" not in tables:
            raise StorageError(
                f"{db} is a database of something else ({', '.join(sorted(tables)[:3])}) and is left alone; "
                "name another file with --db."
            )


def _sweep(db: Path) -> None:
    """Remove temporary files that builds of this database left when they were killed."""
    for left in db.parent.glob(f".{db.name}.*"):
        match = _TEMPORARY.fullmatch(left.name)
        if match and match["name"] == db.name and not _alive(int(match["pid"])):
            _remove(left)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove(left: Path) -> None:
    with contextlib.suppress(OSError):
        if left.is_dir():
            for child in left.iterdir():
                child.unlink()
            left.rmdir()
        else:
            left.unlink()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
