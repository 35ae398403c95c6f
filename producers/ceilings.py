"""`python -m producers.ceilings`: measure a card's memory streams and matrix rates into the lake.

The roofline stands on these figures: run it on the card of a race just before the race, so that floors and
times come from one card in one hour.

Exit codes: 0 recorded; 1 the lake cannot be written; 2 an option is wrong; 5 refused (no card, a busy
card, or the process that measures failed).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from producers.environment import Environment, detect, refuse_busy
from producers.errors import PeerError, RaceError, RefusedError
from producers.locks import DeviceLock
from producers.process import Peer
from producers.scratch import Scratch
from warehouse.append import append
from warehouse.errors import WarehouseError
from warehouse.ids import new_run_id

REPEATS = 10
_TIMEOUT_S = 600.0

Row = dict[str, Any]


def measure(referee: Peer, repeats: int = REPEATS, timeout_s: float = _TIMEOUT_S) -> list[Row]:
    """Ask a referee that has said hello for its device's ceilings (:func:`producers.rates.measure`).

    Raises:
        PeerError: ``unsupported``, the referee has no card; or whatever went wrong.
    """
    answer = referee.request("ceilings", timeout_s, repeats=repeats)
    return [dict(row) for row in answer["ceilings"]]


def rows(measured: Sequence[Row], run_id: str, environment: Environment) -> list[Row]:
    """Rows of table ``ceilings``."""
    device = environment.device
    common = {
        "run_id": run_id,
        "device": device.device,
        "device_uuid": device.device_uuid,
        "recorded_at": datetime.now(UTC),
    }
    return [{**common, **row} for row in measured]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m producers.ceilings", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--lake", type=Path, default=Path("lake"), help="where the figures are appended")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="timed repeats of each problem")
    parser.add_argument("--device-index", type=int, help="card, in nvidia-smi's order (default: the first)")
    parser.add_argument("--busy-ok", action="store_true", help="measure although the card is in use")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}; the least is 1")
    try:
        _record(options)
    except (RaceError, WarehouseError) as error:
        sys.stderr.write(f"ceilings: {error}\n")
        return error.exit_code if isinstance(error, RaceError) else 1
    return 0


def _record(options: argparse.Namespace) -> None:
    environment = detect(options.device_index)
    if not environment.device.is_cuda:
        raise RefusedError(
            "There is no CUDA device here, and what a CPU streams is no ceiling of Triton's interpreter: "
            "nothing was measured."
        )
    with DeviceLock(environment.device.device_uuid), Scratch(environment.device) as scratch:
        if not options.busy_ok:
            refuse_busy(environment)
        try:
            referee = scratch.referee(lambda: None)
            try:
                referee.request("hello", _TIMEOUT_S)
                measured = measure(referee, options.repeats)
            finally:
                referee.close()
        except PeerError as error:
            raise RefusedError(f"The ceilings could not be measured ({error}).") from error
    run_id = new_run_id()
    table = rows(measured, run_id, environment)
    append(options.lake, "runs", [_event(run_id, 0, "started", environment)])
    append(options.lake, "ceilings", table)
    append(options.lake, "runs", [_event(run_id, 1, "finished", environment)])
    for line in summary(table):
        sys.stdout.write(f"{line}\n")


def _event(run_id: str, number: int, event: str, environment: Environment) -> Row:
    return {
        "run_id": run_id,
        "event_seq": number,
        "event": event,
        "recorded_at": datetime.now(UTC),
        "producer": "ceilings",
        **environment.columns(),
    }


def summary(table: Sequence[Row]) -> list[str]:
    """One line for each ceiling: its best repeat."""
    lines = []
    for ceiling in dict.fromkeys(row["ceiling"] for row in table):
        best = min((r for r in table if r["ceiling"] == ceiling), key=_time_per_work)
        if best["bytes_per_s"] is not None:
            lines.append(f"{ceiling:12} {best['bytes_per_s'] / 1e12:8.3f} TB/s    {best['problem']}")
        else:
            lines.append(f"{ceiling:12} {best['ops_per_s'] / 1e12:8.1f} Tops/s  {best['problem']}")
    return lines


def _time_per_work(row: Row) -> float:
    return 1.0 / float(row["bytes_per_s"] or row["ops_per_s"])


if __name__ == "__main__":
    sys.exit(main())
