"""A lake in few files: nothing lost, equal bytes for equal rows, what cannot be packed named."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.lakes import Race, run_id, write
from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.errors import ConflictError, NoLakeError, StorageError
from warehouse.pack import MANIFEST, MAX_BYTES, pack, read_pack


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_row_is_in_the_pack_sorted_by_identity(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        append(tmp_path / "lake", "samples", [sample(number)])

    report = pack([tmp_path / "lake"], tmp_path / "out")

    assert report.rows == {"samples": 3}
    assert list(report.files) == ["samples-00.parquet"]
    packed = pq.read_table(tmp_path / "out" / "samples-00.parquet").to_pydict()
    assert (packed["sample"], packed["time_us"]) == ([1, 2, 3], [101.0, 102.0, 103.0])


def test_equal_lakes_give_equal_packs(tmp_path: Path) -> None:
    one, other = Race(run_id=run_id(1)), Race(run_id=run_id(2), seed=1)
    write(tmp_path / "a", one, other)
    write(tmp_path / "b", other)
    write(tmp_path / "b", one)

    pack([tmp_path / "a"], tmp_path / "packed-a")
    pack([tmp_path / "b"], tmp_path / "packed-b")

    assert contents(tmp_path / "packed-a") == contents(tmp_path / "packed-b")


def test_a_table_over_the_size_is_split_and_nothing_is_lost(tmp_path: Path, lake: Path) -> None:
    whole = pack([lake], tmp_path / "whole").files["samples-00.parquet"]
    limit = whole - 1

    report = pack([lake], tmp_path / "split", max_bytes=limit)

    names = [name for name in report.files if name.startswith("samples")]
    assert names == ["samples-00.parquet", "samples-01.parquet"]
    assert all(report.files[name] <= limit for name in names)
    parts = [pq.read_table(tmp_path / "split" / name) for name in names]
    assert [row for part in parts for row in part.to_pylist()] == pq.read_table(
        tmp_path / "whole" / "samples-00.parquet"
    ).to_pylist()
    assert MAX_BYTES <= 16 * 1000**2


def test_the_manifest_has_the_hash_of_every_file(tmp_path: Path, lake: Path) -> None:
    report = pack([lake], tmp_path / "out")

    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text(encoding="utf-8"))

    assert {f["file"]: f["sha256"] for f in manifest["files"]} == {
        name: hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() for name in report.files
    }
    assert {f["table"]: f["rows"] for f in manifest["files"]} == report.rows


def test_rows_that_stand_twice_are_packed_once(tmp_path: Path, lake: Path) -> None:
    for path in sorted((lake / "samples").iterdir()):
        shutil.copy(path, path.with_name(f"copy-{path.name}"))

    assert pack([lake], tmp_path / "out").rows["samples"] == 240


def test_rows_that_disagree_are_not_packed(tmp_path: Path) -> None:
    append(tmp_path / "lake", "samples", [sample(1)])
    append(tmp_path / "lake", "samples", [sample(1, time_us=5.0)])

    with pytest.raises(ConflictError, match=r"samples: the same identity .* sample 1; correct the lake"):
        pack([tmp_path / "lake"], tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_damaged_file_is_named_and_the_rest_is_packed(tmp_path: Path, lake: Path) -> None:
    cut = append(lake, "samples", [sample(1)])
    assert cut is not None
    cut.write_bytes(cut.read_bytes()[:-9])

    report = pack([lake], tmp_path / "out")

    assert [file.path for file in report.unreadable] == [cut]
    assert report.rows["samples"] == 240


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, lake: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("kept")

    with pytest.raises(StorageError, match="is there already and not empty"):
        pack([lake], tmp_path / "out")

    assert contents(tmp_path / "out") == {"thesis.txt": b"kept"}


@pytest.mark.parametrize("there_before", [False, True])
def test_a_disk_that_fills_up_leaves_nothing_of_the_pack(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, there_before: bool
) -> None:
    out = tmp_path / "out"
    if there_before:
        out.mkdir()
    sync, files = os.fsync, itertools.count()

    def full(descriptor: int) -> None:
        if next(files) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=f"cannot write the pack {out}: No space left on device; free"):
        pack([lake], out)

    assert out.exists() == there_before
    assert not there_before or list(out.iterdir()) == []
    assert pack([lake], out).rows["samples"] == 240


def test_there_must_be_a_lake(tmp_path: Path) -> None:
    with pytest.raises(NoLakeError, match="There is no lake at"):
        pack([tmp_path / "nowhere"], tmp_path / "out")


@pytest.mark.parametrize("text", ["", "[]", '{"format": "zip"}', '{"format": "moe-race lake pack"}'])
def test_a_manifest_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)

    with pytest.raises(StorageError, match="is no manifest of a pack"):
        read_pack(tmp_path)
