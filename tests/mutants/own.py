"""Mutants of the project's own documents, block by block; the raw samples say what is true.

Of each number that is bound to a speedup or a time: moved by one and more in its last place, another unit, its comment
removed, or bound to another cell or contestant. Of each bound comparison: its comment removed, turned round, or bound
to other cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from checks.claims import documents
from checks.claims.model import Verdict
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.world import Oracle
from tests.mutants.drawing import Mutant, Tally

STEPS = (*range(1, 26), 37, 50, 100, 333, 1000)
TOKENS = ("1", "4", "16", "64", "128", "512", "2048")
_NUMBER = re.compile(
    r"(?P<digits>\d+\.?\d*)(?P<unit> ?(?:x|us|ms))?(?P<bold>\**)"
    r"(?P<comment><!-- = SELECT (?P<macro>speedup|time_us)\((?P<arguments>[^)]*)\) -->)"
)
_STATEMENT = re.compile(r"<!-- claim: SELECT (?P<macro>beats|wins)\((?P<arguments>[^)]*)\) -->")
_CELL = re.compile(r"'(?P<before>[^'/]+/[^'/]+/[^'/]+/)(?P<tokens>[^'/]+)'")


def own_documents(project: Path, lake: Path, db: Path) -> Tally:
    """Judge every mutant of the documents of ``project`` over ``db``, built from ``lake``."""
    tally = Tally()
    oracle = Oracle(lake)
    sandbox = Sandbox(db)
    try:
        scanner = Scanner(open_judge(project, sandbox))
        for path in documents.find(project):
            for block in blocks(documents.text_of(path)):
                if any(c.verdict.judged is not True for c in scanner.scan(path.name, block)):
                    continue  # it needs more of its document around it
                for mutant in mutants(block, oracle):
                    judge(scanner, mutant, tally)
    finally:
        sandbox.close()
    return tally


def judge(scanner: Scanner, mutant: Mutant, tally: Tally) -> None:
    """Count one mutant, and whether the gate notices what it has to."""
    tally.mutants[mutant.edit] += 1
    tally.untrue[mutant.edit] += mutant.to_catch
    try:
        verdicts = {c.verdict for c in scanner.scan("own.md", mutant.text)}
    except Exception as error:
        tally.crashed.append((mutant, repr(error)))
        return
    if mutant.to_catch and verdicts <= {Verdict.HOLDS, Verdict.QUOTED, Verdict.WAIVED}:
        tally.missed.append(mutant)


def blocks(source: str) -> Iterator[str]:
    """Yield each block that binds something, with the one before it, which may be its caption; a table row by row."""
    parts = [p for p in re.split(r"\n\s*\n", source) if p.strip()]
    for before, part in zip(["", *parts], parts, strict=False):
        if "SELECT" not in part:
            continue
        if "SELECT" in before:
            before = ""  # noqa: PLW2901 - a block of its own, and no caption
        lines = part.splitlines()
        if len(lines) > 2 and re.fullmatch(r"[|\s:-]+", lines[1]):  # header, rule, rows
            yield from (f"{before}\n\n{lines[0]}\n{lines[1]}\n{row}\n" for row in lines[2:])
        else:
            yield f"{before}\n\n{part}\n"


def mutants(block: str, oracle: Oracle) -> Iterator[Mutant]:
    """Yield the mutants of one block."""
    for match in _NUMBER.finditer(block):
        value = _value(match, oracle)
        if value is None:
            continue  # a glob, or a cell that was never measured

        def edited(new: str, group: str, match: re.Match[str] = match) -> str:
            return block[: match.start(group)] + new + block[match.end(group) :]

        yield from _moved(match, value, edited)
        for unit in {"us": (" ms", "x"), "ms": (" us", "x"), "x": (" us", "%")}.get(
            (match["unit"] or "").strip(), ()
        ):
            yield Mutant("unit", edited(unit, "unit"), true=False)
        yield Mutant("unbound", edited("", "comment"), true=True, unbound=True)
        for arguments in _elsewhere(match["arguments"]):
            yield Mutant("bound-elsewhere", edited(arguments, "arguments"), true=True, unbound=True)
    for match in _STATEMENT.finditer(block):
        whole = (block[: match.start()], block[match.end() :])
        # "1.2x<!-- = SELECT speedup ... --> faster than ..." is proven by its number alone.
        said = re.split(r"\||\. ", whole[0])[-1]
        yield Mutant("statement-unbound", "".join(whole), true=True, unbound="SELECT speedup(" not in said)
        begin, end = match.span("arguments")
        for arguments in (*_elsewhere(match["arguments"]), *_turned(match)):
            text = block[:begin] + arguments + block[end:]
            yield Mutant("statement-elsewhere", text, true=True, unbound=True)


def _value(match: re.Match[str], oracle: Oracle) -> float | None:
    """The figure in the macro's unit, from the samples."""
    names = re.findall(r"'([^']*)'", match["arguments"])
    mode = re.search(r"mode := '(\w+)'", match["arguments"])
    cell = (names[2 if match["macro"] == "speedup" else 1], mode[1] if mode else "graph")
    try:
        if match["macro"] == "speedup":
            return oracle.speedup(names[0], names[1], cell)
        return oracle.time(names[0], cell)
    except KeyError:
        return None


def _moved(match: re.Match[str], value: float, edited: Callable[[str, str], str]) -> Iterator[Mutant]:
    places = len(match["digits"].partition(".")[2])
    half = 0.5 * 10.0**-places
    scale = 1e-3 if (match["unit"] or "").strip() == "ms" else 1.0
    # A ratio can be told of either side.
    seen = (value, 1 / value) if match["macro"] == "speedup" else (value * scale,)
    for step in (*STEPS, *(-s for s in STEPS)):
        number = float(match["digits"]) + step * 10.0**-places
        if number > 0:
            moved = f"{number:.{places}f}"
            true = any(float(moved) - half <= v < float(moved) + half for v in seen)
            yield Mutant("number" if abs(step) > 1 else "last-place", edited(moved, "digits"), true)


def _elsewhere(arguments: str) -> Iterator[str]:
    """Yield the arguments with another number of tokens, and with another contestant."""
    cell = _CELL.search(arguments)
    if cell is not None:
        for tokens in TOKENS:
            if tokens not in cell["tokens"].split(",") and cell["tokens"] != "*":
                yield f"{arguments[: cell.start('tokens')]}{tokens}{arguments[cell.end('tokens') :]}"
    for name, other in (("'vllm'", "'sglang'"), ("'sglang'", "'vllm'"), ("'dispatch'", "'dispatch-naive'")):
        if name in arguments:
            yield arguments.replace(name, other, 1)


def _turned(match: re.Match[str]) -> Iterator[str]:
    """Yield the arguments of a comparison with its two contestants exchanged."""
    found = re.match(r"('[^']*'), ('[^']*')(.*)", match["arguments"])
    if match["macro"] == "beats" and found is not None:
        yield f"{found[2]}, {found[1]}{found[3]}"
