"""Marks a run whose producer vanished: ``python -m producers.serve.epitaph LAKE RUN_ID EVENT`` appends *interrupted*.

Run by the server's keeper and by the run's witness, which outlive a ``kill -9`` of the producer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from producers.serve.state import events_of
from warehouse.append import append
from warehouse.errors import WarehouseError

_ENDED = {"finished", "stopped", "interrupted"}


def mark(lake: Path, run_id: str, event: int) -> bool:
    """Append *interrupted* to a run whose last event is number ``event``, the start of the invocation that is gone.

    False where that has an end, somebody went on with the run meanwhile, or the lake does not have it.
    """
    with _alone(lake):
        return _mark(lake, run_id, event)


@contextlib.contextmanager
def _alone(lake: Path) -> Iterator[None]:
    """One after the other; a file system without locks lets all in at once."""
    try:
        folder = os.open(lake, os.O_RDONLY)
    except OSError:
        yield  # whoever reads the lake says what is wrong with it
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _mark(lake: Path, run_id: str, event: int) -> bool:
    events = events_of(lake, run_id)
    if not events or events[-1]["event_seq"] != event or events[-1]["event"] in _ENDED:
        return False
    last = {name: value for name, value in events[-1].items() if name != "schema_version"}
    row = {
        **last,
        "event_seq": last["event_seq"] + 1,
        "event": "interrupted",
        "recorded_at": datetime.now(UTC),
        "plan_json": None,
        "detail": "the producer vanished; no server of it is left",
    }
    append(lake, "runs", [row])
    return True


def main(arguments: Sequence[str]) -> int:
    """Mark the run of the command line; returns an exit code."""
    try:
        mark(Path(arguments[0]), arguments[1], int(arguments[2]))
    except WarehouseError as error:
        sys.stderr.write(f"serve: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
