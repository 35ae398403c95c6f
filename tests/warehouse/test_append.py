from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.rows import sample
from warehouse import append as module
from warehouse.append import append
from warehouse.errors import SchemaError, StorageError
from warehouse.lake import scan
from warehouse.schema import SCHEMA_VERSION, schema_of

Start = Callable[..., subprocess.Popen[str]]

APPEND_FOREVER = """
import itertools
from pathlib import Path
from tests.warehouse.rows import sample
from warehouse.append import append
for n in itertools.count():
    append(Path(sys.argv[1]), "samples", [sample(k, contestant=sys.argv[2], round=n) for k in range(50)])
    print(n, flush=True)
    if n + 1 == int(sys.argv[3]):
        break
"""


def test_a_file_has_the_declared_schema_and_says_what_it_is(tmp_path: Path) -> None:
    path = append(tmp_path, "samples", [sample(1), sample(0)])
    assert path is not None
    assert path.parent == tmp_path / "samples"
    table = pq.read_table(path)
    assert table.schema.equals(schema_of("samples"))
    assert table["time_us"].to_pylist() == [101.0, 100.0]
    assert table.schema.metadata == {b"table": b"samples", b"schema_version": str(SCHEMA_VERSION).encode()}


def test_files_sort_in_the_order_of_their_writing(tmp_path: Path) -> None:
    written = [append(tmp_path, "samples", [sample(n)]) for n in range(20)]
    assert scan(tmp_path).files("samples") == written


@pytest.mark.parametrize("rows", [[], schema_of("samples").empty_table()])
def test_no_rows_make_no_file_and_no_folder(tmp_path: Path, rows: list[dict[str, object]] | pa.Table) -> None:
    assert append(tmp_path / "lake", "samples", rows) is None
    assert not (tmp_path / "lake").exists()


def test_rows_that_do_not_fit_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        append(tmp_path / "lake", "samples", [sample(0, time_us=float("nan"))])
    assert not (tmp_path / "lake").exists()


def test_a_name_that_is_taken_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["a", "x.parquet", "b", "x.parquet", "y.parquet"])
    monkeypatch.setattr(module, "new_file_name", lambda: next(names))
    first = append(tmp_path, "samples", [sample(0)])
    assert first is not None
    before = first.read_bytes()
    second = append(tmp_path, "samples", [sample(1)])
    assert (first.name, first.read_bytes()) == ("x.parquet", before)
    assert second == tmp_path / "samples" / "y.parquet"


def test_where_every_name_is_taken_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "new_file_name", lambda: "x.parquet")
    append(tmp_path, "samples", [sample(0)])
    with pytest.raises(StorageError, match="no free file name"):
        append(tmp_path, "samples", [sample(1)])
    assert [path.name for path in (tmp_path / "samples").iterdir()] == ["x.parquet"]


@pytest.mark.parametrize("at", ["write_parquet", "_publish"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_place_that_cannot_be_written_is_a_sentence_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, code: int
) -> None:
    def refuse(_: object, path: Path) -> None:
        if at == "write_parquet":
            path.write_bytes(b"PAR1 half")
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module, at, refuse)
    with pytest.raises(StorageError) as refused:
        append(tmp_path, "samples", [sample(0)])
    assert str(refused.value) == (
        f"cannot append 1 rows of samples to {tmp_path}: {os.strerror(code)}; "
        "free space, change the permissions, or name another folder."
    )
    assert list((tmp_path / "samples").iterdir()) == []


def test_a_lake_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("not a folder")
    with pytest.raises(StorageError, match="cannot append 1 rows of samples"):
        append(tmp_path / "lake", "samples", [sample(0)])


def test_a_disk_that_fills_up_in_the_middle_of_a_file_is_a_sentence(tmp_path: Path, python: Start) -> None:
    process = python(
        """
import resource
from pathlib import Path
from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.errors import StorageError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    append(Path("lake"), "samples", [sample(n) for n in range(1000)])
except StorageError as error:
    print(error)
"""
    )
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert out.startswith("cannot append 1000 rows of samples to lake: ")
    assert list((tmp_path / "lake" / "samples").iterdir()) == []


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path, python: Start) -> None:
    lake = tmp_path / "lake"
    acknowledged: dict[str, int] = {}
    for attempt in range(4):
        process = python(APPEND_FOREVER, lake, f"writer-{attempt}", 0)
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(0.013 * attempt)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        acknowledged[f"writer-{attempt}"] = max([0, *map(int, rest.split())])
    found = scan(lake)
    assert found.damaged == []
    rows = pa.concat_tables([pq.read_table(path) for path in found.files("samples")]).to_pylist()
    for writer, last in acknowledged.items():
        rounds = [row["round"] for row in rows if row["contestant"] == writer]
        assert set(range(last + 1)) <= set(rounds)
        assert {rounds.count(n) for n in set(rounds)} == {50}
    assert all(stray.path.name.endswith(".tmp") for stray in found.strays)


def test_eight_writers_at_once_keep_every_row(tmp_path: Path, python: Start) -> None:
    lake = tmp_path / "lake"
    writers = [python(APPEND_FOREVER, lake, f"writer-{n}", 3) for n in range(8)]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, "")
    found = scan(lake)
    assert (len(found.files("samples")), found.damaged, found.strays) == (24, [], ())
    assert sum(entry.rows or 0 for entry in found.entries) == 8 * 3 * 50
