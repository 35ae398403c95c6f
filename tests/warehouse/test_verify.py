from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.lakes import POLICY, Race, run_id, write
from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.errors import NoLakeError
from warehouse.verify import Verification, verify

RUN = Race().run_id


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy that the synthetic races are measured under."""
    path = tmp_path_factory.mktemp("policy") / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def told(result: Verification) -> list[tuple[str, str]]:
    return [(finding.kind, finding.text) for finding in result.findings]


def event(number: int, what: str, **changes: object) -> dict[str, object]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"run_id": run_id(5), "event_seq": number, "event": what, "recorded_at": at, "producer": "race"}
    return {**row, **changes}


def test_a_finished_race_has_no_findings(lake: Path, policy: Path) -> None:
    result = verify([lake], policy)
    assert (told(result), result.notes, result.exit_code) == ([], [], 0)
    assert (result.files, result.rows, result.runs) == (7, 296, 1)


def test_damage_is_named_with_exit_code_3_and_leftovers_are_notes(lake: Path, policy: Path) -> None:
    (good,) = (lake / "samples").glob("*.parquet")
    (lake / "samples" / "empty.parquet").touch()
    (lake / "samples" / "notes.txt").write_text("by hand")
    (lake / "samples" / ".x.parquet.tmp").touch()
    data = bytearray(good.read_bytes())
    with pq.ParquetFile(good) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
    times = next(column for column in columns if column.path_in_schema == "time_us")
    data[times.data_page_offset + times.total_compressed_size - 8] ^= 1
    good.write_bytes(data)
    result = verify([lake], policy)
    damaged = [text for kind, text in told(result) if kind == "damaged"]
    assert [str(good) in damaged[0], "empty.parquet" in damaged[1], len(damaged)] == [True, True, 2]
    assert result.exit_code == 3
    assert len(result.notes) == 2


def test_a_run_that_is_mentioned_and_not_registered_is_missing(lake: Path, policy: Path) -> None:
    for path in (lake / "runs").iterdir():
        path.unlink()
    result = verify([lake], policy)
    assert (
        "run",
        f"{RUN} is mentioned in cells, rosters, samples, verdicts, workers and missing in runs",
    ) in told(result)
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([(0, "started")], f"{run_id(5)} never finished; its last event is 'started'"),
        ([(0, "started"), (1, "stopped")], f"{run_id(5)} never finished; its last event is 'stopped'"),
        (
            [(0, "started"), (2, "finished")],
            f"{run_id(5)} has 2 events, numbered 0 to 2: an event is missing",
        ),
        ([(1, "finished")], f"{run_id(5)} has 1 events, numbered 1 to 1: an event is missing"),
    ],
)
def test_a_run_without_an_end_or_with_a_gap_is_named(
    lake: Path, policy: Path, events: list[tuple[int, str]], says: str
) -> None:
    append(lake, "runs", [event(number, what) for number, what in events])
    result = verify([lake], policy)
    assert told(result) == [("run", says)]
    assert result.exit_code == 1


def test_a_policy_that_changed_since_the_newest_run_is_drift(lake: Path, tmp_path: Path) -> None:
    today = tmp_path / "policy.toml"
    today.write_text(POLICY + "\n# one word more\n", encoding="utf-8")
    ((kind, text),) = told(verify([lake], today))
    assert kind == "policy"
    assert hashlib.sha256(today.read_bytes()).hexdigest()[:12] in text
    assert Race().policy_sha256[:12] in text
    write(lake, Race(run_id=run_id(9), policy=today.read_text(encoding="utf-8")))
    assert told(verify([lake], today)) == []


def test_a_stored_policy_with_another_hash_or_none_is_named(lake: Path, policy: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    append(lake, "policies", [{"policy_sha256": "0" * 64, "registered_at": at, "policy_toml": "a = = 1"}])
    append(lake, "runs", [event(0, "started", policy_sha256="f" * 64), event(1, "finished")])
    texts = [text for _, text in told(verify([lake], policy))]
    assert "the text stored as 000000000000 has another hash: it was changed" in texts
    assert any(text.startswith("the text stored as 000000000000 is not valid TOML") for text in texts)
    assert f"{run_id(5)} was measured under ffffffffffff, whose text is not in policies" in texts


def test_samples_of_an_unknown_cell_or_contestant_are_named(lake: Path, policy: Path) -> None:
    cell = Race().cells[0]
    append(lake, "samples", [sample(n, cell_id="other/bf16/uniform/1", round=90) for n in range(3)])
    append(lake, "samples", [sample(n, cell_id=cell, contestant="nobody") for n in range(2)])
    assert told(verify([lake], policy)) == [
        ("samples", f"{RUN} has 3 samples of other/bf16/uniform/1, and no such cell in cells"),
        ("samples", f"{RUN} has 2 samples of nobody, and its roster has no such entry"),
    ]


def test_one_identity_with_two_values_is_a_conflict(lake: Path, policy: Path) -> None:
    (path,) = (lake / "samples").glob("*.parquet")
    first = pq.read_table(path).slice(0, 1).to_pylist()[0]
    append(lake, "samples", [first])
    assert told(verify([lake], policy)) == []
    append(lake, "samples", [{**first, "time_us": 1.0}])
    result = verify([lake], policy)
    assert {kind for kind, _ in told(result)} == {"conflict"}
    assert result.exit_code == 1
    assert any(f"run_id {RUN}" in text for _, text in told(result))


def test_lakes_are_judged_together(tmp_path: Path, policy: Path) -> None:
    race = Race()
    write(tmp_path / "a", race)
    write(tmp_path / "b", replace(race, run_id=run_id(3)))
    for path in (tmp_path / "a" / "runs").iterdir():
        path.rename(tmp_path / "b" / "runs" / path.name)
    assert verify([tmp_path / "a"], policy).exit_code == 1
    assert verify([tmp_path / "a", tmp_path / "b"], policy).exit_code == 0


def test_a_lake_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoLakeError):
        verify([tmp_path / "nowhere"])
