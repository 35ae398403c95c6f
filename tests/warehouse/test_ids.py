from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from warehouse.ids import RUN_ID, new_file_name, new_run_id


def test_run_ids_have_the_form_that_the_architecture_gives() -> None:
    assert RUN_ID.fullmatch(new_run_id())
    assert new_run_id(datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)).startswith("20260304T050607Z-")


def test_identifiers_are_in_utc_and_sort_by_time() -> None:
    east = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert new_run_id(east).startswith("20251231T230000Z-")
    early = datetime(2026, 1, 1, tzinfo=UTC)
    assert new_file_name(early) < new_file_name(early + timedelta(microseconds=1))


def test_two_identifiers_of_one_moment_differ() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert len({new_run_id(now) for _ in range(100)}) == 100
