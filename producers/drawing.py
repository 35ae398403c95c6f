"""Has the referee draw a race's inputs; a cell that cannot be drawn fails alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from producers.errors import PeerError, RefusedError
from producers.plan import Cell
from producers.process import Peer, Reply
from producers.workloads import weight_family


@dataclass
class Drawn:
    """What the referee answered: replies by cell_id and by weights' key, and why others have none."""

    cells: dict[str, Reply] = field(default_factory=dict)
    weights: dict[tuple[str, str], Reply] = field(default_factory=dict)
    failures: dict[str, PeerError] = field(default_factory=dict)  # by cell_id


def weights_of(cell: Cell) -> tuple[str, str]:
    """Cells with the same key read the same weights."""
    return cell.workload, weight_family(cell.precision)


def draw(
    cells: Iterable[Cell],
    start: Callable[[], Peer],
    inputs: Path,
    *,
    seed: int,
    timeout_s: float,
    note: Callable[[str], None],
) -> Drawn:
    """Draw the inputs of ``cells``, each after the weights that it reads.

    A failure (too little memory, as a rule) costs the cell, or the cells of the weights, that it came at. A
    referee that died is replaced for the next cell, and draws the weights anew: the same numbers.

    Args:
        cells: what to draw.
        start: starts a referee.
        inputs: folder of the drawn inputs.
        seed: of all draws.
        timeout_s: longest wait for one answer.
        note: told what takes long.

    Raises:
        RefusedError: no referee starts.
    """
    drawn = Drawn()
    lost: dict[tuple[str, str], PeerError] = {}
    referee: Peer | None = None
    drawn_here: set[tuple[str, str]] = set()
    try:
        for cell in cells:
            key = weights_of(cell)
            if key in lost:
                drawn.failures[cell.cell_id] = lost[key]
                continue
            if referee is None:
                referee, drawn_here = _greeted(start, timeout_s), set()
            fields = {"scratch": str(inputs / cell.workload), "seed": seed}
            try:
                if key not in drawn_here:
                    note(f"drawing weights: {' '.join(key)}")
                    drawn.weights[key] = referee.request(
                        "weights", timeout_s, workload=cell.shape(), precision=cell.precision, **fields
                    )
                    drawn_here.add(key)
                drawn.cells[cell.cell_id] = referee.request("cell", timeout_s, cell=cell.row(), **fields)
            except PeerError as error:
                drawn.failures[cell.cell_id] = error
                weights_stand = key in drawn_here
                if not weights_stand:
                    lost[key] = error
                # What was written of it would take the room of the next.
                rest = cell.cell_id.replace("/", "__") if weights_stand else f"weights-{key[1]}"
                shutil.rmtree(inputs / cell.workload / rest, ignore_errors=True)
                if error.fatal:
                    referee.close(gently=False)
                    referee = None
    finally:
        if referee is not None:
            referee.close()
    return drawn


def _greeted(start: Callable[[], Peer], timeout_s: float) -> Peer:
    try:
        referee = start()
        try:
            referee.request("hello", timeout_s)
        except BaseException:
            referee.close(gently=False)
            raise
    except PeerError as error:
        raise RefusedError(
            f"The inputs could not be drawn ({error}); python -m producers.doctor says what is missing."
        ) from error
    return referee
