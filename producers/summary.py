"""What a race prints: its plan before, its winners after."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from producers.environment import CPU_DEVICE
from producers.errors import RaceError
from producers.plan import Plan

_WIDEST = 1000  # characters of a line that is asked how wide it wants to be


def print_plan(plan: Plan, *, device: str, cuda: bool, console: Console) -> None:
    """The cells, the contestants with house and role, the required rivals left out, an estimate."""
    console.print(
        f"{device}: {len(plan.cells)} cells, modes {', '.join(plan.modes)}, {plan.rounds} rounds over "
        f"{plan.sessions} sessions, {plan.samples} samples a round, seed {plan.seed}",
        soft_wrap=True,
    )
    table = Table("contestant", "house", "role", "precisions", "interpreter", box=None, header_style="bold")
    rows: dict[tuple[str, str, str, bool], list[str]] = {}
    for seat in plan.seats:
        rows.setdefault((seat.contestant, seat.house, seat.role, seat.entered), []).append(seat.precision)
    interpreters = {entrant.name: entrant.interpreter for entrant in plan.entrants}
    for (name, house, role, entered), precisions in rows.items():
        shown = role if entered else f"{role}, LEFT OUT"
        where = interpreters.get(name) or ("this one" if entered else "-")
        table.add_row(name, house, shown, ", ".join(precisions), where)
    console.print(table)
    left_out = sorted({seat.contestant for seat in plan.seats if not seat.entered})
    if left_out:
        console.print(
            f"Required by the policy and left out: {', '.join(left_out)}. The cells stay incomplete.",
            soft_wrap=True,
        )
    for cell in plan.cells:
        console.print(f"  {cell.cell_id}", highlight=False, soft_wrap=True)
    minutes = plan.estimate_s(cuda=cuda) / 60
    console.print(f"A rough guess of the duration: {max(minutes, 0.1):.1f} minutes.")


def winners(db: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of the view ``winners`` for the cells of a run, as the warehouse judges them now.

    Raises:
        RaceError: the warehouse cannot be read.
    """
    import duckdb  # noqa: PLC0415 - a machine that only measures (--no-build) need not have it

    try:
        with duckdb.connect(str(db), read_only=True) as connection:
            found = connection.execute(
                "SELECT * FROM winners WHERE device = (SELECT any_value(device) FROM runs WHERE run_id = ?) "
                "AND cell_id IN (SELECT cell_id FROM run_cells WHERE run_id = ?) ORDER BY ALL",
                [run_id, run_id],
            )
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise RaceError(f"The winners cannot be read from {db} ({reason}); build it anew.") from error


def print_winners(rows: list[dict[str, Any]], run_id: str, console: Console) -> None:
    """A table of outcomes, and below it why cells are undecided; where another run speaks for a cell, it is named.

    The table is as wide as its words: a narrow terminal wraps its lines, and no word is cut.
    """
    workloads = sorted({row["workload"] for row in rows})
    table = Table(
        "cell", "mode", "outcome", "margin", "interval", box=None, header_style="bold", pad_edge=False
    )
    for column in table.columns:
        column.no_wrap = True
    for row in rows:
        cell = row["cell_id"] if len(workloads) > 1 else row["cell_id"].partition("/")[2]
        decided = f"{row['winner']} wins" if row["winner"] else row["outcome"]
        margin = "-" if row["margin"] is None else f"{row['margin']:.3f}"
        interval = "-" if row["margin_lo"] is None else f"[{row['margin_lo']:.3f}, {row['margin_hi']:.3f}]"
        table.add_row(cell, row["timing_mode"], decided, margin, interval)
    if len(workloads) == 1:
        console.print(f"{workloads[0]}:", highlight=False)
    widest = Measurement.get(console, console.options.update(width=_WIDEST), table).maximum
    console.width = max(console.width, widest)
    console.print(table)
    for why, cells in sorted(_reasons(rows, run_id).items()):
        counted = "1 cell" if cells == 1 else f"{cells} cells"
        console.print(f"{counted}: {why}", highlight=False, soft_wrap=True)
    if any(row["device"] == CPU_DEVICE for row in rows):
        console.print(
            "These are times of Triton's interpreter: they show that the machinery works, and they say nothing "
            "about any GPU.",
            highlight=False,
            soft_wrap=True,
        )


def _reasons(rows: list[dict[str, Any]], run_id: str) -> Counter[str]:
    """Why cells are as they are, and of how many cells and modes each is said."""
    said = [row["reason"] for row in rows if row["reason"]]
    said += [f"run {row['run_id']} speaks here" for row in rows if row["run_id"] != run_id]
    return Counter(said)
