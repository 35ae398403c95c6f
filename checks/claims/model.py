"""What a claim is and what it can come to."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Verdict(enum.Enum):
    """What became of a claim. Everything from FALSE on closes the gate."""

    HOLDS = "holds"
    QUOTED = "quoted"  # a figure from elsewhere, or a prediction: listed, not proven
    WAIVED = "waived"  # the document says why it is no claim: listed
    FALSE = "false"
    UNJUDGED = "could-not-judge"
    REJECTED = "rejected"  # the binding does not prove what the sentence says, whatever the data are
    UNBOUND = "unbound"  # a figure or comparison that nothing covers

    @property
    def judged(self) -> bool | None:
        """True where the gate may pass, False where it may not, None where nobody knows."""
        if self is Verdict.UNJUDGED:
            return None
        return self in {Verdict.HOLDS, Verdict.QUOTED, Verdict.WAIVED}


class Kind(enum.Enum):
    """How a sentence is bound."""

    NUMBER = "number"  # <!-- = SELECT ... -->
    STATEMENT = "statement"  # <!-- claim: SELECT ... -->
    QUOTED = "quoted"  # <!-- quoted: source -->
    WAIVER = "waiver"  # <!-- not-a-claim: reason -->
    UNKNOWN = "unknown"  # a comment that looks like one of these and is none
    NONE = "none"  # no comment at all


@dataclass(frozen=True)
class Claim:
    """One binding, or one finding where a binding is missing.

    Attributes:
        document: Path relative to the project, with forward slashes.
        line: Line of the comment, or of the unbound words, counted from 1.
        sentence: The sentence without its comments; a table cell with its column and row labels.
        query: SQL, source or reason of the comment; empty where there is none.
        reason: One sentence: why it is false, rejected, unbound ..., or what was compared where it holds.
        rows: The query's result.
        suggestion: A query that would bind the words, or the nearest true statement.
    """

    document: str
    line: int
    sentence: str
    kind: Kind
    query: str
    verdict: Verdict
    reason: str
    rows: tuple[tuple[Any, ...], ...] = ()
    suggestion: str = ""

    def __str__(self) -> str:
        """The claim as one line of output."""
        tail = f" [{self.suggestion}]" if self.suggestion else ""
        return f"{self.document}:{self.line}: {self.verdict.value}: {self.reason} ({self.sentence}){tail}"


@dataclass(frozen=True)
class ClaimsResult:
    """Every claim of the documents that were scanned, in the order of the text."""

    documents: tuple[str, ...]
    claims: tuple[Claim, ...]

    def having(self, *verdicts: Verdict) -> tuple[Claim, ...]:
        """Return the claims with one of ``verdicts``."""
        return tuple(c for c in self.claims if c.verdict in verdicts)

    @property
    def failures(self) -> tuple[Claim, ...]:
        """Claims that close the gate."""
        return tuple(c for c in self.claims if c.verdict.judged is not True)

    @property
    def exit_code(self) -> int:
        """1 where something is false, rejected or unbound; 3 where something could not be judged; else 0."""
        if any(c.verdict.judged is False for c in self.claims):
            return 1
        return 3 if self.failures or not self.documents else 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the claims as rows of a frame, and one row 'scanned' for each document."""
        for document in self.documents:
            yield {
                "document": document,
                "line": 0,
                "sentence": "",
                "kind": "document",
                "query": "",
                "verdict": "scanned",
                "reason": "",
                "suggestion": "",
                "judged": True,
            }
        for c in self.claims:
            yield {
                "document": c.document,
                "line": c.line,
                "sentence": c.sentence,
                "kind": c.kind.value,
                "query": c.query,
                "verdict": c.verdict.value,
                "reason": c.reason,
                "suggestion": c.suggestion,
                "judged": c.verdict.judged,
            }
