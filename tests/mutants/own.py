"""Mutants of the project's own documents: every bound number moved by one in its last place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from checks.claims import documents
from checks.claims.model import Kind
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.world import Oracle
from tests.mutants.drawing import Mutant, Tally


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
