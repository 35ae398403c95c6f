"""Mutate true documents and see whether the gate notices: ``python -m tests.mutate_claims``.

Every mutant is a sentence that an edit could leave behind: a digit moved, a rival renamed, a cell changed in the
words or in the query, a quantifier widened, a binding lost. An oracle over the raw samples (no view, no macro)
says whether what the mutant says is true. Each untrue one has to be caught, each rewording of a true one has to
pass. 50 untrue documents also go through the whole command.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from checks.claims import documents
from checks.claims.model import Kind, Verdict
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
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
    make,
)

PROJECT = Path(__file__).parents[1]
VALUES = {"tokens": TOKENS, "precision": PRECISIONS, "routing": ROUTINGS, "mode": MODES}
STRANGERS = ("humming", "dispatch-naive", "flashinfer")
OTHER_UNITS = {
    "x": ("%", "us", " ms"),
    "us": ("ms", "s", "x"),
    "ms": ("us", "s", "ns"),
    "cells": ("positions",),
}


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


class Mutator:
    """Draws mutants of true statements."""

    def __init__(self, oracle: Oracle, rng: random.Random) -> None:
        self.oracle = oracle
        self.rng = rng
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

    def draw(self, count: int) -> Iterator[Mutant]:
        """Yield ``count`` mutants, the edits in turn."""
        names = list(self.edits)
        made = 0
        while made < count:
            edit = names[made % len(names)]
            for _ in range(200):
                mutant = self.edits[edit](self.rng.choice(self.oracle.statements))
                if mutant is not None:
                    yield mutant
                    break
            made += 1

    def rewordings(self, count: int) -> Iterator[str]:
        """Yield true sentences in other words, order and layout, with their bindings."""
        for _ in range(count):
            text = sentence(self.rng.choice(self.oracle.statements), self.rng)
            yield self._layout(text)

    # ---- edits of the words, the binding stays -----------------------------------------------------------------

    def _words(self, s: Statement, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self._layout(sentence(said, self.rng, bound=comments(s))), self.oracle.true(said))

    def _both(self, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self._layout(sentence(said, self.rng)), self.oracle.true(said))

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
            "unbound", self._layout(sentence(said, self.rng, bound=("", ""))), self.oracle.true(said), True
        )

    def _foreign(self, s: Statement) -> Mutant:
        said, other = self._any(s), self.rng.choice(self.oracle.statements)
        text = sentence(said, self.rng, bound=comments(other))
        return Mutant("foreign-binding", self._layout(text), self.oracle.true(said))

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
        return Mutant("rival-dropped", self._layout(text), self.oracle.true(said))

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
        other = self.rng.choice(self.oracle.statements)
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

    def _layout(self, text: str) -> str:
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


def run(scanner: Scanner, mutator: Mutator, mutants: int, rewordings: int) -> Tally:
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


def own_documents(project: Path, lake: Path, db: Path) -> Tally:
    """Move every bound number of the project's own documents by one in its last place; the raw samples judge."""
    tally = Tally()
    oracle = Oracle(lake)
    sandbox = Sandbox(db)
    try:
        scanner = Scanner(open_judge(project, sandbox))
        for path in documents.find(project):
            source = documents.text_of(path)
            for mutant in _moved_numbers(source, oracle):
                tally.mutants[mutant.edit] += 1
                tally.untrue[mutant.edit] += not mutant.true
                claims = scanner.scan(path.name, mutant.text)
                if not mutant.true and not any(
                    c.verdict.judged is not True for c in claims if c.kind is Kind.NUMBER
                ):
                    tally.missed.append(mutant)
    finally:
        sandbox.close()
    return tally


_BOUND = re.compile(
    r"(\d+\.?\d*)( ?(?:x|us|ms))?(\**)<!-- = SELECT (speedup|time_us)\(([^)]*)\) -->"
)  # fmt: skip


def _moved_numbers(source: str, oracle: Oracle) -> Iterator[Mutant]:
    """Yield the document once for each bound number and direction, that number moved by one in the last place."""
    for match in _BOUND.finditer(source):
        names = re.findall(r"'([^']*)'", match[5])
        mode = re.search(r"mode := '(\w+)'", match[5])
        cell = (names[2 if match[4] == "speedup" else 1], mode[1] if mode else "graph")
        try:
            value = (
                oracle.speedup(names[0], names[1], cell)
                if match[4] == "speedup"
                else oracle.time(names[0], cell)
            )
        except KeyError:
            continue  # a glob, or a cell that was never measured
        places = len(match[1].partition(".")[2])
        scale = 1e-3 if (match[2] or "").strip() == "ms" else 1.0
        for step in (-1, 1):
            moved = f"{float(match[1]) + step * 10.0**-places:.{places}f}"
            half = 0.5 * 10.0**-places
            # A ratio can be told of either side.
            seen = (value * scale, 1 / value) if match[4] == "speedup" else (value * scale,)
            true = any(float(moved) - half <= v < float(moved) + half for v in seen)
            yield Mutant("own-number", source[: match.start(1)] + moved + source[match.end(1) :], true)


def command(mutants: Sequence[Mutant], db: Path, folder: Path) -> int:
    """Run the whole command on each document alone; return how many were not refused."""
    passed = 0
    (folder / "pyproject.toml").write_text('[tool.checks]\ndocuments = ["*.md"]\n', encoding="utf-8")
    for mutant in mutants:
        (folder / "mutant.md").write_text(mutant.text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "checks", "run", "--suite", "claims", "--db", str(db)],
            cwd=folder,
            env={"PYTHONPATH": str(PROJECT), "PATH": ""},
            capture_output=True,
            check=False,
        )
        passed += done.returncode not in {1, 3}
    return passed


def main() -> int:
    """Run everything and print the counts; 0 if nothing was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=6000)
    parser.add_argument("--rewordings", type=int, default=600)
    parser.add_argument("--command", type=int, default=50, help="documents that go through `checks run`")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake, db = make(Path(folder))
        sandbox = Sandbox(db)
        mutator = Mutator(Oracle(lake), random.Random(options.seed))
        tally = run(Scanner(open_judge(PROJECT, sandbox)), mutator, options.mutants, options.rewordings)
        sandbox.close()
        print(tally)
        for mutant in tally.missed[:20]:
            print(f"MISSED {mutant.edit}: {mutant.text}")
        for mutant, error in tally.crashed[:20]:
            print(f"CRASH {error}: {mutant.text}")
        for text, reason in tally.alarms[:20]:
            print(f"ALARM {reason}: {text}")
        untrue = [m for m in mutator.draw(4 * options.command) if not m.true][: options.command]
        passed = command(untrue, db, Path(folder))
        print(f"{len(untrue)} untrue documents through the command, {passed} passed")
        missed = len(tally.missed) + len(tally.crashed) + passed
        if (PROJECT / "data" / "samples").is_dir():
            own_db = Path(folder) / "own.db"
            from warehouse.build import build

            build([PROJECT / "data"], own_db)
            own = own_documents(PROJECT, PROJECT / "data", own_db)
            print(
                f"own documents: {own.mutants.total()} mutants, {own.untrue.total()} untrue, {len(own.missed)} missed"
            )
            missed += len(own.missed)
    return int(missed > 0 or tally.alarm_share > 0.02)


if __name__ == "__main__":
    sys.exit(main())
