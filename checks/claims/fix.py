"""Rewrite stale numbers. A sentence is never rewritten: where its words no longer hold, a person has to write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.claims import documents
from checks.claims.markdown import COMMENT, classify
from checks.claims.model import Kind
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge


@dataclass(frozen=True)
class Rewrite:
    """One number in a document: what was printed, what the lake gives at the same precision."""

    document: str
    line: int
    old: str
    new: str


def fix(project_root: Path, db: Path, *, dry_run: bool = False) -> list[Rewrite]:
    """Rewrite the stale numbers of a project's documents, keeping precision and unit; return what changed.

    Raises:
        ChecksError: a document or the warehouse cannot be read.
    """
    rewrites: list[Rewrite] = []
    sandbox = Sandbox(db)
    try:
        scanner = Scanner(open_judge(project_root, sandbox))
        for path in documents.find(project_root):
            source = documents.text_of(path)
            name = path.relative_to(project_root).as_posix()
            changed, found = rewrite(scanner, name, source)
            rewrites += found
            if found and not dry_run:
                path.write_text(changed, encoding="utf-8", newline="")
    finally:
        sandbox.close()
    return rewrites


def rewrite(scanner: Scanner, document: str, source: str) -> tuple[str, list[Rewrite]]:
    """Return ``source`` with its stale numbers rewritten, and the list of them."""
    places = dict(_places(source))
    edits: list[tuple[int, int, str]] = []
    rewrites: list[Rewrite] = []
    taken: dict[tuple[int, str], int] = {}
    for _, mark, bound in scanner.bindings(source):
        # The same query can stand several times in a line: the n-th binding is the n-th comment.
        key = (mark.comment.line, mark.comment.body)
        taken[key] = taken.get(key, -1) + 1
        ends = places.get(key, [])
        if taken[key] >= len(ends):
            continue
        end = ends[taken[key]]
        for printed, value in reversed(scanner.judge.values(bound)):
            digits = printed.printing(value)
            start = source.rfind(printed.text, 0, end)
            if start < 0:
                break
            end = start
            if not printed.stands_for(value):
                edits.append((start, start + len(printed.text), digits))
                rewrites.append(Rewrite(document, mark.comment.line, printed.text, digits))
    for start, stop, digits in sorted(edits, reverse=True):
        source = source[:start] + digits + source[stop:]
    return source, rewrites


def _places(source: str) -> Iterator[tuple[tuple[int, str], list[int]]]:
    """Yield for each number's comment (line, query) the offsets at which such comments begin."""
    found: dict[tuple[int, str], list[int]] = {}
    for match in COMMENT.finditer(source):
        known = classify(match[1])
        if known is not None and known[0] is Kind.NUMBER:
            line = source.count("\n", 0, match.start()) + 1
            found.setdefault((line, known[1]), []).append(match.start())
    yield from found.items()
