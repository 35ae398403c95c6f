"""``python -m checks.table``: the outcomes of one contestant as a Markdown table in which everything is bound.

A row is a token count and routing, a column a precision. A cell says what the lake's `winners` says: where the
contestant wins, the speedup over the nearest rival of another house and, as a claim of its own, that every required
rival was beaten; where it loses, the same of the winner; else that the cell is inconclusive, a tie, incomplete.
`checks run` judges the table wherever it is pasted.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from checks.errors import ChecksError
from checks.options import Db, Project, finish, place

_CELLS = """
    WITH cells AS (
        SELECT
            *,
            -- who is in front of the entrant
            CASE
                WHEN outcome = 'win' AND winner <> $entrant THEN winner
                WHEN outcome = 'tie' AND NOT list_contains(string_split(tied, ', '), $entrant) THEN leader
            END AS ahead
        FROM winners
        WHERE device = $device AND timing_mode = $mode
    )
    SELECT
        c.workload, c.precision, c.routing, c.tokens, c.cell_id, c.outcome, c.ahead, c.wins_over_all, c.refused,
        arg_min(r.rival, r.speedup_vs_rival) AS rival,
        min(r.speedup_vs_rival) AS speedup,
        arg_min(r.hi < 1 / (1 + c.tie_band), r.speedup_vs_rival) AS beaten
    FROM cells c
    LEFT JOIN ratios r
        ON r.run_id = c.run_id AND r.cell_id = c.cell_id AND r.timing_mode = c.timing_mode AND r.contestant = $entrant
        AND CASE WHEN c.ahead IS NOT NULL THEN r.rival = c.ahead
            ELSE r.house <> r.rival_house AND r.rival_role = 'required' END
    GROUP BY ALL
    ORDER BY c.workload, c.tokens, c.routing, c.precision
"""


@dataclass(frozen=True)
class Cell:
    """One row of `winners`, with the ratio of the entrant to one rival.

    Attributes:
        ahead: the winner where that is somebody else, or the leader of a tie that the entrant has no part in.
        rival: that one, else the nearest required contestant of another house; None without a ratio to it.
        speedup: the rival's time over the entrant's.
        beaten: whether the rival is faster beyond the tie band.
    """

    workload: str
    precision: str
    routing: str
    tokens: int
    cell_id: str
    outcome: str
    ahead: str | None
    wins_over_all: bool
    refused: str | None
    rival: str | None
    speedup: float | None
    beaten: bool | None


def table(db: Path, entrant: str, mode: str, device: str | None) -> str:
    """Return the caption and the table, Markdown.

    Args:
        db: The warehouse.
        entrant: The contestant whose table it is.
        mode: `graph` or `eager`.
        device: None for the only one of the lake.

    Raises:
        ChecksError: there is no such evidence, or it is of several devices or workloads.
    """
    device, cells = _read(db, entrant, mode, device)
    workloads = sorted({c.workload for c in cells})
    if len(workloads) > 1:
        raise ChecksError(f"{db} has {', '.join(workloads)} on {device}; a table is of one workload")
    precisions = sorted({c.precision for c in cells})
    by_place = {(c.tokens, c.routing, c.precision): _shown(c, entrant, mode, device) for c in cells}
    lines = [
        f"`{entrant}` on the {device} in {mode} mode, {workloads[0]}:",
        "",
        "| " + " | ".join(["tokens", "routing", *precisions]) + " |",
        "|---|---|" + "---|" * len(precisions),
    ]
    for tokens, routing in sorted({(c.tokens, c.routing) for c in cells}):
        row = [by_place.get((tokens, routing, precision), "") for precision in precisions]
        lines.append("| " + " | ".join([str(tokens), routing, *row]) + " |")
    return "\n".join(lines)


def _read(db: Path, entrant: str, mode: str, device: str | None) -> tuple[str, list[Cell]]:
    import duckdb  # noqa: PLC0415 - heavy

    if not db.is_file():
        raise ChecksError(f"there is no warehouse at {db}; build it with `warehouse build --db {db}`")
    try:
        with duckdb.connect(str(db), read_only=True) as con:
            devices = [d for (d,) in con.execute("SELECT DISTINCT device FROM winners ORDER BY 1").fetchall()]
            chosen = devices[0] if device is None and len(devices) == 1 else device
            if chosen is None or chosen not in devices:
                raise ChecksError(f"{db} has measurements of {', '.join(devices) or 'no device'}; name one")
            rows: list[tuple[Any, ...]] = con.execute(
                _CELLS, {"entrant": entrant, "mode": mode, "device": chosen}
            ).fetchall()
    except duckdb.Error as error:
        raise ChecksError(f"{db} cannot be read ({str(error).splitlines()[0]}); build it anew") from None
    if not rows:
        raise ChecksError(f"{db} has no cell in {mode} mode on {chosen}")
    if all(row[-2] is None for row in rows):
        raise ChecksError(f"{db} has no ratio of {entrant} to a required rival in {mode} mode on {chosen}")
    return chosen, [Cell(*row) for row in rows]


def _shown(cell: Cell, entrant: str, mode: str, device: str) -> str:
    """What the table says of a cell, with the comments that bind it."""
    where = f"'{cell.cell_id}', mode := '{mode}', device_name := '{device}'"
    outcome = (
        f"<!-- claim: SELECT bool_and(outcome = '{cell.outcome}') FROM winners WHERE cell_id = '{cell.cell_id}' "
        f"AND timing_mode = '{mode}' AND device = '{device}' -->"
    )
    if cell.outcome not in {"win", "tie"}:
        return f"{cell.outcome}{outcome}"
    if cell.rival is None or cell.speedup is None:
        return f"no time{outcome}"
    if cell.outcome == "tie" and cell.ahead is None:
        return f"level with {cell.rival}<!-- claim: SELECT ties('{entrant}', '{cell.rival}', {where}) -->"
    number = f"<!-- = SELECT speedup('{entrant}', '{cell.rival}', {where}) -->"
    if cell.ahead is not None:
        if not cell.beaten:
            return f"undecided against {cell.rival}{outcome}"
        beaten = f"<!-- claim: SELECT beats('{cell.rival}', '{entrant}', {where}) -->"
        return f"{_digits(1 / cell.speedup)}x{number} slower than {cell.rival}{beaten}"
    if cell.wins_over_all:
        proof, note = f"<!-- claim: SELECT wins('{entrant}', {where}) -->", ""
    else:
        proof = f"<!-- claim: SELECT beats('{entrant}', '{cell.rival}', {where}) -->"
        note = f", refused: {cell.refused}"
    return f"{_digits(cell.speedup)}x{number} faster than {cell.rival}{proof}{note}"


def _digits(value: float) -> str:
    """Two places, rounded as `checks fix` rounds."""
    return str(Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def main(
    db: Db = None,
    project: Project = None,
    entrant: Annotated[str, typer.Option(help="Whose table it is.")] = "dispatch",
    mode: Annotated[str, typer.Option(help="graph or eager.")] = "graph",
    device: Annotated[str | None, typer.Option(help="Default: the only one of the lake.")] = None,
) -> None:
    """Print the outcomes of one contestant as a Markdown table whose every number is bound."""

    def work() -> int:
        print(table(place(db, project).db, entrant, mode, device))
        return 0

    finish(work)


if __name__ == "__main__":
    typer.run(main)
