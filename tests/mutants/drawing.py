"""What a mutant is, how they are drawn, and the counts of what the gate made of them."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from checks.claims.model import Verdict
from checks.claims.scan import Scanner

S = TypeVar("S")


@dataclass(frozen=True)
class Mutant:
    """A document, what the oracle says of it, and which edit made it."""

    edit: str
    text: str
    true: bool
    unbound: bool = False

    @property
    def to_catch(self) -> bool:
        """Whether the gate has to fail: something untrue is said, or something is bound to nothing."""
        return self.unbound or not self.true


@dataclass
class Tally:
    """Counts of a run, and the mutants that were judged wrongly."""

    mutants: Counter[str] = field(default_factory=Counter)
    untrue: Counter[str] = field(default_factory=Counter)
    missed: list[Mutant] = field(default_factory=list)
    crashed: list[tuple[Mutant, str]] = field(default_factory=list)
    rewordings: int = 0
    alarms: list[tuple[str, str]] = field(default_factory=list)

    @property
    def alarm_share(self) -> float:
        """False alarms among the rewordings."""
        return len(self.alarms) / self.rewordings if self.rewordings else 0.0

    def __str__(self) -> str:
        """The counts, one edit a line."""
        lines = [f"{'edit':<22}{'mutants':>9}{'to catch':>9}"]
        lines += [f"{e:<22}{n:>9}{self.untrue[e]:>9}" for e, n in sorted(self.mutants.items())]
        lines.append(
            f"{self.mutants.total()} mutants, {self.untrue.total()} untrue or unbound, {len(self.missed)} missed, "
            f"{len(self.crashed)} crashes; {self.rewordings} rewordings, {len(self.alarms)} false alarms"
        )
        return "\n".join(lines)


class Mutator(ABC, Generic[S]):
    """Draws mutants of true statements, and rewordings of them."""

    edits: dict[str, Callable[[S], Mutant | None]]

    def __init__(self, statements: Sequence[S], rng: random.Random) -> None:
        self.statements = statements
        self.rng = rng

    @abstractmethod
    def sentence(self, statement: S) -> str:
        """Say ``statement`` in some words, with its binding."""

    def draw(self, count: int) -> Iterator[Mutant]:
        """Yield ``count`` mutants, the edits in turn."""
        names = list(self.edits)
        made = 0
        while made < count:
            edit = names[made % len(names)]
            for _ in range(200):
                mutant = self.edits[edit](self.rng.choice(self.statements))
                if mutant is not None:
                    yield mutant
                    break
            made += 1

    def rewordings(self, count: int) -> Iterator[str]:
        """Yield true sentences in other words, order and layout, with their bindings."""
        for _ in range(count):
            yield self.layout(self.sentence(self.rng.choice(self.statements)))

    def layout(self, text: str) -> str:
        """Wrap lines, or put the text into a list, a quotation, or bold."""
        style = self.rng.randrange(6)
        if style == 0:
            return re.sub(r" (?![^<]*-->)", lambda _: self.rng.choice([" ", " ", "\n"]), text)
        if style == 1:
            return f"- {text}\n- and some other item\n"
        if style == 2:
            return f"> {text}\n"
        if style == 3:
            return f"Some words before.  {text} Some words after.\n"
        return text


def run(scanner: Scanner, mutator: Mutator[S], mutants: int, rewordings: int) -> Tally:
    """Judge mutants and rewordings with ``scanner`` and count."""
    tally = Tally()
    for mutant in mutator.draw(mutants):
        tally.mutants[mutant.edit] += 1
        tally.untrue[mutant.edit] += mutant.to_catch
        try:
            claims = list(scanner.scan("mutant.md", mutant.text))
        except Exception as error:
            tally.crashed.append((mutant, repr(error)))
            continue
        if mutant.to_catch and all(c.verdict is Verdict.HOLDS for c in claims):
            tally.missed.append(mutant)
    for text in mutator.rewordings(rewordings):
        tally.rewordings += 1
        wrong = [c for c in scanner.scan("reworded.md", text) if c.verdict is not Verdict.HOLDS]
        if wrong:
            tally.alarms.append((text, wrong[0].reason))
    return tally
