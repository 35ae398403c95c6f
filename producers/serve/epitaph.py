"""Marks a run whose producer vanished: ``python -m producers.serve.epitaph LAKE RUN_ID`` appends *interrupted*.

Run by the server's keeper, the only process of a run that outlives a ``kill -9`` of the producer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from producers.serve.state import events_of
from warehouse.append import append
from warehouse.errors import WarehouseError

_ENDED = {"finished", "stopped", "interrupted"}


def mark(lake: Path, run_id: str) -> bool:
    """Append *interrupted* to a run that has no end yet; False where it has one, or is not in the lake."""
    events = events_of(lake, run_id)
    if not events or events[-1]["event"] in _ENDED:
        return False
    last = {name: value for name, value in events[-1].items() if name != "schema_version"}
    row = {
        **last,
        "event_seq": last["event_seq"] + 1,
        "event": "interrupted",
        "recorded_at": datetime.now(UTC),
        "plan_json": None,
        "detail": "the producer vanished; its server was ended",
    }
    append(lake, "runs", [row])
    return True


def main(arguments: Sequence[str]) -> int:
    """Mark the run of the command line; returns an exit code."""
    try:
        mark(Path(arguments[0]), arguments[1])
    except WarehouseError as error:
        sys.stderr.write(f"serve: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
