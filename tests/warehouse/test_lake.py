from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.cast import cast
from warehouse.errors import NoLakeError, StorageError
from warehouse.lake import fingerprint, require, scan


def samples(lake: Path, *numbers: int) -> Path:
    path = append(lake, "samples", [sample(n) for n in numbers])
    assert path is not None
    return path


def put(lake: Path, name: str, table: pa.Table) -> Path:
    """Write a file past the contract, as somebody else's program would."""
    path = lake / "samples" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def test_an_absent_lake_is_an_empty_one_for_who_only_looks(tmp_path: Path) -> None:
    found = scan(tmp_path / "nowhere")
    assert (found.entries, found.strays, found.files("samples")) == ((), (), [])


def test_commands_refuse_a_lake_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoLakeError, match="There is no lake at"):
        require([tmp_path, tmp_path / "nowhere"])
    with pytest.raises(NoLakeError, match="No lake was named"):
        require([])


def test_partial_files_are_named_and_the_good_one_is_read(tmp_path: Path) -> None:
    good = samples(tmp_path, 0, 1, 2)
    folder = good.parent
    (folder / "killed.parquet").write_bytes(good.read_bytes()[:-20])
    (folder / "empty.parquet").touch()
    (folder / "notes.txt").write_text("by hand")
    (folder / ".x.parquet.tmp").write_bytes(b"PAR1")
    found = scan(tmp_path)
    assert found.files("samples") == [good]
    assert {entry.path.name: entry.status for entry in found.damaged} == {
        "killed.parquet": "damaged",
        "empty.parquet": "damaged",
    }
    assert (
        next(e for e in found.damaged if e.path.name == "empty.parquet").reason
        == "the file is empty (0 bytes)"
    )
    reasons = {stray.path.name: stray.reason for stray in found.strays}
    assert "killed" in reasons[".x.parquet.tmp"]
    assert reasons["notes.txt"] == "not a Parquet file of the lake; it is not read"


def test_names_of_files_that_cannot_be_opened_are_damage_and_never_skipped(tmp_path: Path) -> None:
    good = samples(tmp_path, 0)
    (good.parent / "folder.parquet").mkdir()
    (good.parent / "link.parquet").symlink_to(tmp_path / "unmounted.parquet")
    (tmp_path / "verdicts").symlink_to(tmp_path / "unmounted", target_is_directory=True)
    (tmp_path / "cells").write_text("no folder")
    before = fingerprint([tmp_path])
    found = scan(tmp_path)
    assert found.files("samples") == [good]
    assert {entry.path.name: (entry.status, entry.reason) for entry in found.damaged} == {
        "cells": ("damaged", "a table is a folder of files, and this is none"),
        "folder.parquet": ("damaged", "a folder, not a file"),
        "link.parquet": ("damaged", "a link that leads nowhere, or no plain file"),
        "verdicts": ("damaged", "a table is a folder of files, and this is none"),
    }
    (good.parent / "link.parquet").unlink()
    assert fingerprint([tmp_path]) != before


def test_a_path_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    lake = tmp_path / "\udcff"
    lake.mkdir()
    with pytest.raises(StorageError, match=r"\? is no text in this locale; use a UTF-8 locale"):
        require([lake])


def test_what_is_no_table_of_the_lake_is_a_stray(tmp_path: Path) -> None:
    samples(tmp_path, 0)
    put(tmp_path / "samples", "nested.parquet", cast("samples", [sample(1)]))
    (tmp_path / "mesurements").mkdir()
    assert {stray.path.name for stray in scan(tmp_path).strays} == {"samples", "mesurements"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"latency": pa.array([1.0])}, "column 'latency' is not declared for samples (schema version 1)"),
        ({"time_us": pa.array([1])}, "column 'time_us' is int64, and samples declares double"),
        ({"time_us": pa.array(["1"])}, "column 'time_us' is string, and samples declares double"),
        ({"round": pa.array([1], pa.int64())}, "column 'round' is int64, and samples declares int32"),
        ({"time_us": None}, "column 'time_us' is missing, and samples needs it"),
    ],
)
def test_a_file_of_another_schema_is_foreign(
    tmp_path: Path, change: dict[str, pa.Array | None], reason: str
) -> None:
    table = cast("samples", [sample(0)])
    for name, column in change.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        if column is not None:
            table = table.append_column(name, column)
    put(tmp_path, "x.parquet", table)
    (entry,) = scan(tmp_path).damaged
    assert (entry.status, entry.reason) == ("foreign", reason)


def test_a_file_without_a_column_that_may_be_null_is_read(tmp_path: Path) -> None:
    path = append(tmp_path, "costs", [{"cost_id": "a", "basis": "rate"}])
    assert path is not None
    pq.write_table(pq.read_table(path).drop_columns(["covers", "amount_usd"]), path)
    for deep in (False, True):
        assert scan(tmp_path, deep=deep).files("costs") == [path]


def test_a_flipped_bit_in_a_page_is_found_by_reading_deeply(tmp_path: Path) -> None:
    path = samples(tmp_path, *range(1000))
    data = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        names = [
            file.metadata.row_group(0).column(i).path_in_schema for i in range(file.metadata.num_columns)
        ]
        column = file.metadata.row_group(0).column(names.index("time_us"))
    data[column.data_page_offset + column.total_compressed_size - 8] ^= 1
    path.write_bytes(data)
    assert scan(tmp_path).damaged == []
    (entry,) = scan(tmp_path, deep=True).damaged
    assert entry.path == path


def test_a_copy_has_the_fingerprint_of_its_original(tmp_path: Path) -> None:
    samples(tmp_path / "a", 0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("no part of the lake")
    before = fingerprint([tmp_path / "a"])
    assert fingerprint([tmp_path / "b"]) == before
    more = samples(tmp_path / "b", 1)
    assert fingerprint([tmp_path / "b"]) != before
    more.unlink()
    assert fingerprint([tmp_path / "b"]) == before


def test_a_lake_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    with pytest.raises(StorageError, match=f"cannot list {tmp_path / 'lake'}: Not a directory"):
        scan(tmp_path / "lake")
