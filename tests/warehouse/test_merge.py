"""Another machine's lake into this one: every row once, a disagreement refused, a second time nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lakes import Race, run_id, write
from tests.warehouse.rows import sample
from warehouse import merge
from warehouse.append import append
from warehouse.build import build
from warehouse.cast import Rows
from warehouse.errors import ConflictError, NoLakeError, StorageError
from warehouse.lake import scan
from warehouse.merge import MergeReport, import_lake
from warehouse.pack import pack

Start = Callable[..., subprocess.Popen[str]]


def rows(lake: Path, table: str) -> list[dict[str, object]]:
    found = [row for path in scan(lake).files(table) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=str)


def counts(report: MergeReport, table: str) -> tuple[int, int]:
    return report.added[table], report.recognised[table]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The local lake, with a run of its own."""
    return write(tmp_path / "here", Race(run_id=run_id(7), seed=7))


@pytest.mark.parametrize("packed", [False, True])
def test_rows_arrive_unchanged_from_a_lake_or_a_pack(tmp_path: Path, lake: Path, packed: bool) -> None:
    source = lake
    if packed:
        source = tmp_path / "pack"
        pack([lake], source, max_bytes=8000)

    report = import_lake(source, tmp_path / "new")

    assert counts(report, "samples") == (240, 0)
    for table in ("policies", "runs", "rosters", "cells", "workers", "samples", "verdicts"):
        assert rows(tmp_path / "new", table) == rows(lake, table)


def test_what_is_there_is_recognised(tmp_path: Path, lake: Path, here: Path) -> None:
    write(tmp_path / "both", Race(), Race(run_id=run_id(7), seed=7))

    report = import_lake(tmp_path / "both", here)

    assert counts(report, "samples") == (240, 240)
    assert counts(report, "policies") == (0, 1)
    built = build([here], tmp_path / "w.db")
    assert (built.rows["samples"], built.repeated, built.conflicts) == (480, {}, ())


def test_a_second_import_adds_nothing(tmp_path: Path, lake: Path, here: Path) -> None:
    pack([lake], tmp_path / "pack")
    import_lake(lake, here)
    files = [entry.path for entry in scan(here).entries]

    for source in (lake, tmp_path / "pack"):
        assert sum(import_lake(source, here).added.values()) == 0

    assert [entry.path for entry in scan(here).entries] == files


def test_an_import_is_recorded(lake: Path, here: Path) -> None:
    import_lake(lake, here)

    (record,) = rows(here, "imports")

    assert (record["format"], record["source"], record["refused"]) == ("lake", "lake", 0)
    # The policy is the same in both lakes; everything else is new.
    assert (record["records_in"], record["rows_out"]) == (296, 295)
    assert record["note"] == "1 rows were there already"


def test_another_value_for_an_identity_is_refused_before_anything_is_written(
    tmp_path: Path, lake: Path, here: Path
) -> None:
    append(here, "samples", [sample(1)])
    append(lake, "samples", [sample(1, time_us=5.0), sample(2)])
    files = [entry.path for entry in scan(here).entries]

    with pytest.raises(ConflictError, match=r"samples: run_id .*sample 1 has another value in .*/lake"):
        import_lake(lake, here)

    assert [entry.path for entry in scan(here).entries] == files


def test_null_and_a_value_disagree(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    append(tmp_path / "a", "predictions", [{"prediction_id": "p", "recorded_at": at}])
    append(
        tmp_path / "b", "predictions", [{"prediction_id": "p", "recorded_at": at, "predicted_time_us": 1.0}]
    )

    with pytest.raises(ConflictError, match="prediction_id p has another value"):
        import_lake(tmp_path / "a", tmp_path / "b")


def test_the_earlier_registration_of_a_policy_counts(tmp_path: Path) -> None:
    policy = {"policy_sha256": "x", "policy_toml": "version = 1"}
    for name, day in (("old", 1), ("new", 2)):
        row = {**policy, "registered_at": datetime(2026, 1, day, tzinfo=UTC)}
        append(tmp_path / name, "policies", [row])

    assert counts(import_lake(tmp_path / "new", tmp_path / "old"), "policies") == (0, 1)
    assert counts(import_lake(tmp_path / "old", tmp_path / "new"), "policies") == (1, 0)

    for name in ("old", "new"):
        built = build([tmp_path / name], tmp_path / f"{name}.db")
        assert (built.rows["policies"], built.conflicts) == (1, ())


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file_is_named_and_the_rest_arrives(tmp_path: Path, packed: bool) -> None:
    source = tmp_path / "there"
    append(source, "samples", [sample(1)])
    append(source, "cells", [_cell()])
    if packed:
        pack([source], tmp_path / "pack")
        source = tmp_path / "pack"
    (cut,) = source.rglob("*samples*/*.parquet" if not packed else "samples*.parquet")
    cut.write_bytes(cut.read_bytes()[:-9])

    report = import_lake(source, tmp_path / "here")

    assert [file.path.name for file in report.unreadable] == [cut.name]
    assert (counts(report, "samples"), counts(report, "cells")) == ((0, 0), (1, 0))
    (record,) = rows(tmp_path / "here", "imports")
    assert [r["file"] for r in json.loads(str(record["refusals_json"]))] == [cut.name]


def test_an_import_that_was_cut_off_is_completed_by_the_next(
    tmp_path: Path, lake: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(where: Path, table: str, data: Rows | pa.Table) -> Path | None:
        if table == "verdicts":
            raise StorageError("full")
        return append(where, table, data)

    monkeypatch.setattr(merge, "append", full)
    with pytest.raises(StorageError, match="full"):
        import_lake(lake, here)
    assert rows(here, "imports") == []
    monkeypatch.undo()

    report = import_lake(lake, here)

    assert report.added["verdicts"] == len(rows(lake, "verdicts"))
    built = build([here], tmp_path / "w.db")
    assert (built.rows["samples"], built.rows["imports"], built.repeated) == (480, 1, {})


def test_two_imports_at_once_give_every_row_once(tmp_path: Path, lake: Path, python: Start) -> None:
    code = (
        "from pathlib import Path\nfrom warehouse.merge import import_lake\n"
        "import_lake(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    for process in [python(code, lake, tmp_path / "new") for _ in range(2)]:
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    built = build([tmp_path / "new"], tmp_path / "w.db")
    assert (built.rows["samples"], built.rows["imports"], built.conflicts) == (240, 1, ())


def test_a_pack_whose_file_was_replaced_by_a_readable_one(tmp_path: Path) -> None:
    append(tmp_path / "a", "samples", [sample(1)])
    append(tmp_path / "b", "samples", [sample(2)])
    pack([tmp_path / "a"], tmp_path / "pack")
    pack([tmp_path / "b"], tmp_path / "other")
    (tmp_path / "other" / "samples-00.parquet").replace(tmp_path / "pack" / "samples-00.parquet")

    report = import_lake(tmp_path / "pack", tmp_path / "here")

    assert [file.reason for file in report.unreadable] == ["its SHA-256 is not that of the manifest"]
    assert counts(report, "samples") == (0, 0)


def test_what_is_no_source(tmp_path: Path, lake: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(NoLakeError, match="There is no lake or pack at"):
        import_lake(tmp_path / "nowhere", lake)
    with pytest.raises(NoLakeError, match="has no file of a lake"):
        import_lake(tmp_path / "empty", lake)
    with pytest.raises(StorageError, match="is the lake itself"):
        import_lake(lake, lake)


def _cell() -> dict[str, object]:
    shape = {"experts": 4, "top_k": 2, "hidden": 64, "intermediate": 32, "tokens": 1}
    names = {"workload": "tiny", "precision": "bf16", "routing": "uniform"}
    return {"run_id": run_id(0), "cell_id": "tiny/bf16/uniform/1", **names, **shape}
