"""Single rows of the lake."""

from __future__ import annotations

from warehouse.schema import schema_of


def sample(number: int, **changes: object) -> dict[str, object]:
    """Return a row of samples whose identity is its number."""
    row: dict[str, object] = {
        "run_id": "20260101T000000Z-00000000",
        "cell_id": "tiny/bf16/uniform/1",
        "contestant": "dispatch",
        "timing_mode": "eager",
        "session": 0,
        "round": 0,
        "position": 0,
        "sample": number,
        "time_us": 100.0 + number,
        "l2_state": "none",
    }
    assert set(row) == set(schema_of("samples").names) - {"schema_version"}
    return {**row, **changes}
