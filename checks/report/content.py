"""From rows to what both documents say: the verdict in words, the matrix of winners, blocks of a race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from checks.model import INTERPRETER, INTERPRETER_NOTE
from checks.report.data import OUTCOMES, ReportData
from checks.report.rows import Row

LIBRARY = "dispatch"  # whose speedups are drawn where it takes part


@dataclass(frozen=True)
class Square:
    """One field of the matrix: the outcome in words, and the row that it stands for (None: no such cell)."""

    text: str
    outcome: str
    house: str | None = None
    row: Row | None = None


@dataclass(frozen=True)
class Matrix:
    """Winners of a block: a line for each token count, a column for each precision and routing."""

    columns: list[tuple[str, str]]
    lines: list[tuple[int, list[Square]]]


@dataclass(frozen=True)
class Block:
    """Everything of one device, workload and timing mode."""

    device: str
    workload: str
    mode: str
    verdict: str
    matrix: Matrix
    winners: list[Row]
    times: list[Row]
    ratios: list[Row]
    spreads: list[Row]
    subject: str
    contestants: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Device, workload and mode in one line."""
        return f"{self.device}, {self.workload}, {self.mode}"

    @property
    def note(self) -> str:
        """What has to be known of every figure of the block; empty for a card."""
        return INTERPRETER_NOTE if self.device == INTERPRETER else ""

    @property
    def pairs(self) -> list[Row]:
        """The speedups of the subject over everyone; of the others each pair once, the other way is its inverse."""
        return [
            r
            for r in self.ratios
            if r["contestant"] == self.subject
            or (r["rival"] != self.subject and r["contestant"] < r["rival"])
        ]


def blocks(data: ReportData) -> list[Block]:
    """One block for each device, workload and mode that has cells."""

    def place(row: Row) -> tuple[str, str, str]:
        return row["device"], row["workload"], row["timing_mode"]

    made = []
    for key, group in groupby(data.winners, key=place):
        winners = list(group)
        times = [r for r in data.times if place(r) == key]
        ratios = [r for r in data.ratios if place(r) == key]
        racing = sorted(
            {r["contestant"] for r in times if r["role"] != "control" and r["time_us"] is not None}
        )
        made.append(
            Block(
                *key,
                verdict=verdict(winners),
                matrix=matrix(winners),
                winners=winners,
                times=times,
                ratios=ratios,
                spreads=[r for r in data.spreads if place(r) == key],
                subject=subject(winners, racing),
                contestants=racing,
            )
        )
    return made


def subject(winners: Iterable[Row], contestants: list[str]) -> str:
    """Whose speedups are drawn: the library's where it was measured, else the most frequent leader's."""
    if LIBRARY in contestants or not contestants:
        return LIBRARY
    leaders = Counter(r["leader"] for r in winners if r["leader"] in contestants)
    return leaders.most_common(1)[0][0] if leaders else contestants[0]


def verdict(winners: list[Row]) -> str:
    """Who wins, in one or two sentences with counts; whoever has the higher count stands first."""
    cells = len(winners)
    wins = Counter(r["winner"] for r in winners if r["winner"])
    short = Counter(r["winner"] for r in winners if r["winner"] and not r["wins_over_all"])
    ranking = sorted(wins.items(), key=lambda item: (-item[1], item[0]))
    if ranking and ranking[0][1] == cells:
        name = ranking[0][0]
        refused = f", {short[name]} of them with a required rival refused" if short[name] else ""
        return f"{name} wins {'the only cell' if cells == 1 else f'all {cells} cells'}{refused}."
    parts = [
        f"{name} wins {count}" + (f" ({short[name]} with a required rival refused)" if short[name] else "")
        for name, count in ranking
    ]
    others = Counter(r["outcome"] for r in winners if r["outcome"] != "win")
    parts += [_counted(o, others[o]) for o in OUTCOMES if others[o]]
    counts = f"Of {cells} {'cell' if cells == 1 else 'cells'}, {_listed(parts)}."
    if not ranking:
        return f"Nobody wins a cell. {counts}"
    first = ranking[0][1]
    if len(ranking) > 1 and ranking[1][1] == first:
        return f"Nobody wins most cells. {counts}"
    return (
        f"{ranking[0][0]} wins {'most cells' if 2 * first > cells else 'more cells than any other'}. {counts}"
    )


def _counted(outcome: str, count: int) -> str:
    """Return e.g. "2 are ties"."""
    one = count == 1
    match outcome:
        case "tie":
            return f"{count} {'is a tie' if one else 'are ties'}"
        case "sole entrant":
            return f"{count} {'has' if one else 'have'} a sole entrant"
        case _:
            return f"{count} {'is' if one else 'are'} {outcome}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def matrix(winners: list[Row]) -> Matrix:
    """Arrange the outcomes; a combination that was not raced is shown as such."""
    columns = sorted({(r["precision"], r["routing"]) for r in winners})
    tokens = sorted({r["tokens"] for r in winners})
    by_place = {(r["precision"], r["routing"], r["tokens"]): r for r in winners}
    lines = []
    for count in tokens:
        squares = [square(by_place.get((*column, count))) for column in columns]
        lines.append((count, squares))
    return Matrix(columns, lines)


def square(row: Row | None) -> Square:
    """Outcome of one cell in a few words."""
    if row is None:
        return Square("not raced", "none")
    outcome = row["outcome"]
    match outcome:
        case "win":
            refused = "" if row["wins_over_all"] else " *"
            return Square(f"{row['winner']} {row['margin']:.2f}x{refused}", outcome, row["house"], row)
        case "tie":
            return Square(f"tie: {row['tied']}", outcome, None, row)
        case "incomplete":
            return Square(f"incomplete: no {row['missing'] or 'verdict'}", outcome, None, row)
        case _:
            return Square(str(outcome), outcome, None, row)
