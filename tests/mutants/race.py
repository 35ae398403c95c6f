"""Mutants of sentences about a race: every edit that could leave a wrong one behind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from tests.checks.claims.phrasing import comments, sentence
from tests.checks.claims.world import (
    CONTESTANTS,
    MODES,
    PRECISIONS,
    ROUTINGS,
    TOKENS,
    Oracle,
    Statement,
    Where,
)
from tests.mutants.drawing import Mutant, Mutator

VALUES = {"tokens": TOKENS, "precision": PRECISIONS, "routing": ROUTINGS, "mode": MODES}
STRANGERS = ("humming", "dispatch-naive", "flashinfer")
OTHER_UNITS = {
    "x": ("%", "us", " ms"),
    "us": ("ms", "s", "x"),
    "ms": ("us", "s", "ns"),
    "cells": ("positions",),
}


class RaceMutator(Mutator[Statement]):
    """Draws mutants of true statements."""

    def __init__(self, oracle: Oracle, rng: random.Random) -> None:
        super().__init__(oracle.statements, rng)
        self.oracle = oracle
        self.edits: dict[str, Callable[[Statement], Mutant | None]] = {
            "last-place": lambda s: self._words(s, self._number(s, 1), "last-place"),
            "number": lambda s: self._words(s, self._number(s, self.rng.choice((2, 5, 10, 100))), "number"),
            "unit": lambda s: self._words(s, self._unit(s), "unit"),
            "direction": lambda s: self._words(s, self._swapped(s), "direction"),
            "winner": lambda s: self._words(s, self._renamed(s, "first"), "winner"),
            "rival": lambda s: self._words(s, self._renamed(s, "second"), "rival"),
            "cell": lambda s: self._words(s, self._moved(s), "cell"),
            "widened": lambda s: self._words(s, self._widened(s), "widened"),
            "cell-and-query": lambda s: self._both(self._moved(s), "cell-and-query"),
            "winner-and-query": lambda s: self._both(self._renamed(s, "first"), "winner-and-query"),
            "direction-and-query": lambda s: self._both(self._swapped(s), "direction-and-query"),
            "unbound": self._unbound,
            "foreign-binding": self._foreign,
            "rival-dropped": self._rival_dropped,
            "added": self._added,
            "quantifier": self._quantifier,
            "always": self._always,
            "negated": self._negated,
            "count-to-all": self._count_to_all,
            "kind": self._kind,
            "table": self._table,
        }

    def sentence(self, statement: Statement) -> str:
        """Say ``statement`` in some words, with its binding."""
        return sentence(statement, self.rng)

    # ---- edits of the words, the binding stays -----------------------------------------------------------------

    def _words(self, s: Statement, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self.layout(sentence(said, self.rng, bound=comments(s))), self.oracle.true(said))

    def _both(self, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self.layout(sentence(said, self.rng)), self.oracle.true(said))

    def _number(self, s: Statement, steps: int) -> Statement | None:
        if not s.numbers:
            return None
        at = self.rng.randrange(len(s.numbers))
        places = len(s.numbers[at].partition(".")[2])
        value = float(s.numbers[at]) + self.rng.choice((-1, 1)) * steps * 10.0**-places
        numbers = tuple(f"{abs(value):.{places}f}" if i == at else n for i, n in enumerate(s.numbers))
        return replace(s, numbers=numbers)

    def _unit(self, s: Statement) -> Statement | None:
        return replace(s, unit=self.rng.choice(OTHER_UNITS[s.unit]).strip()) if s.unit else None

    def _swapped(self, s: Statement) -> Statement | None:
        return replace(s, first=s.second, second=s.first) if s.second else None

    def _renamed(self, s: Statement, side: str) -> Statement | None:
        if not getattr(s, side):
            return None
        others = [c for c in (*CONTESTANTS, *STRANGERS) if c not in {s.first, s.second}]
        name = self.rng.choice(others)
        return replace(s, first=name) if side == "first" else replace(s, second=name)

    def _moved(self, s: Statement) -> Statement | None:
        dimension = self.rng.choice([d for d in VALUES if getattr(s.where, d)] or ["tokens"])
        now = getattr(s.where, dimension)
        choice = [v for v in VALUES[dimension] if (v,) != now] + (
            ["2048", "129"] if dimension == "tokens" else []
        )
        return replace(s, where=replace(s.where, **{dimension: (self.rng.choice(choice),)}))

    def _widened(self, s: Statement) -> Statement | None:
        named = [d for d in VALUES if getattr(s.where, d)]
        if not named:
            return None
        dropped = self.rng.sample(named, self.rng.randint(1, len(named)))
        return replace(s, where=replace(s.where, **dict.fromkeys(dropped, ())))

    def _any(self, s: Statement) -> Statement:
        """Some other statement near ``s``, true or not."""
        edits = [
            self._number(s, 1),
            self._swapped(s),
            self._renamed(s, "first"),
            self._moved(s),
            self._widened(s),
        ]
        return self.rng.choice([e for e in edits if e is not None] or [s])

    # ---- edits of the binding, and of both ---------------------------------------------------------------------

    def _unbound(self, s: Statement) -> Mutant:
        said = self._any(s)
        return Mutant(
            "unbound", self.layout(sentence(said, self.rng, bound=("", ""))), self.oracle.true(said), True
        )

    def _foreign(self, s: Statement) -> Mutant:
        said, other = self._any(s), self.rng.choice(self.statements)
        text = sentence(said, self.rng, bound=comments(other))
        return Mutant("foreign-binding", self.layout(text), self.oracle.true(said))

    def _rival_dropped(self, s: Statement) -> Mutant | None:
        """The founding error: a win over one rival, told as a win."""
        if s.kind != "beats":
            return None
        said = Statement("wins", s.first, "", s.where)
        cells = s.where.glob()
        query = self.rng.choice(
            [
                f"wins('{s.first}', {cells}, rivals := '{s.second}')",
                f"beats('{s.first}', '{s.second}', {cells})",
            ]
        )
        text = sentence(said, self.rng, bound=(f"<!-- claim: SELECT {query} -->", ""))
        return Mutant("rival-dropped", self.layout(text), self.oracle.true(said))

    def _added(self, s: Statement) -> Mutant:
        """One more comparison behind a bound one."""
        first, second = self.rng.sample(CONTESTANTS, 2)
        added = Statement("beats", first, second, s.where)
        tail = self.rng.choice(
            [
                f" And {first} is faster than {second}.",
                f" {second} is slower than {first}, too.",
                f" {second} cannot keep up: {first} beats it.",
                f" Here {first} leads {second}.",
            ]
        )
        text = sentence(s, self.rng) + tail
        if self.rng.random() < 0.5:
            base = sentence(s, self.rng)
            end = base.rfind(".", 0, base.rfind("<!--")) if base.endswith("-->") else len(base) - 1
            text = f"{base[:end]}, and {first} is faster than {second}{base[end:]}"
        return Mutant("added", text, self.oracle.true(added), unbound=True)

    def _quantifier(self, s: Statement) -> Mutant | None:
        if s.kind not in {"beats", "wins"} or not any(getattr(s.where, d) for d in VALUES):
            return None
        said = replace(s, where=Where())
        phrase = self.rng.choice(
            ["in every cell", "always", "throughout", "everywhere", "in all cases", "consistently"]
        )
        text = sentence(said, self.rng, bound=("", "")).rstrip(".")
        text = re.sub(
            r"(?:in every cell|in all cells|at every token count),? ?", "", text, flags=re.IGNORECASE
        ).rstrip(" ,")
        return Mutant("quantifier", f"{text} {phrase}.{comments(s)[0]}", self.oracle.true(said))

    def _always(self, s: Statement) -> Mutant | None:
        """A quantifier put beside the scope that it contradicts."""
        if s.kind not in {"beats", "wins"} or not s.where.tokens or len(s.where.tokens) == len(TOKENS):
            return None
        said = replace(s, where=replace(s.where, tokens=()))
        text = sentence(s, self.rng)
        end = text.rfind(".", 0, text.rfind("<!--")) if text.endswith("-->") else len(text) - 1
        phrase = self.rng.choice(
            [" and at every token count", " and at all other token counts", ", as at every size"]
        )
        return Mutant("always", text[:end] + phrase + text[end:], self.oracle.true(said))

    def _negated(self, s: Statement) -> Mutant | None:
        if s.kind not in {"beats", "wins"}:
            return None
        text = sentence(s, self.rng)
        for verb, negated in (
            (" beats ", " does not beat "),
            (" is faster", " is not faster"),
            (" wins", " never wins"),
            (" is slower", " is no slower"),
            (" outperforms ", " fails to outperform "),
            (" trails ", " hardly trails "),
            (" is ahead", " isn't ahead"),
        ):
            if verb in text:
                return Mutant("negated", text.replace(verb, negated, 1), true=False)
        return None

    def _count_to_all(self, s: Statement) -> Mutant | None:
        if "count" not in s.kind:
            return None
        said = Statement("beats" if s.second else "wins", s.first, s.second, s.where)
        bound = comments(s)
        return Mutant("count-to-all", sentence(said, self.rng, bound=bound), self.oracle.true(said))

    def _kind(self, s: Statement) -> Mutant | None:
        """A comparison told of a statement that was bound as a time, and the like."""
        other = self.rng.choice(self.statements)
        said = replace(other, where=s.where) if other.kind in {"beats", "wins"} else None
        if said is None or s.kind == said.kind:
            return None
        return Mutant("kind", sentence(said, self.rng, bound=comments(s)), self.oracle.true(said))

    def _table(self, s: Statement) -> Mutant | None:
        """A table of times with one label, header or digit changed."""
        if s.kind != "time":
            return None
        query = comments(s)[0]
        said = self.rng.choice([self._number(s, 1), self._moved(s), self._renamed(s, "first"), self._unit(s)])
        if said is None:
            return None
        v = said.where
        text = (
            f"| tokens | precision | routing | mode | {said.first} ({said.unit}) |\n|---|---|---|---|---|\n"
            f"| {v.tokens[0]} | {v.precision[0]} | {v.routing[0]} | {v.mode[0]} | {said.numbers[0]}{query} |\n"
        )
        return Mutant("table", text, self.oracle.true(said))
