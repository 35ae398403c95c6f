"""What a check is and what it can come to. No heavy import: ``checks list`` reads this module only.

A :class:`Rule` is one query and the expectations over its rows. Each row is a subject (a cell, a run, a
table), so that a rule without rows is a rule without evidence: it could not be judged, it did not pass.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Scalar = str | int | float | bool

# The device of everything that ran under Triton's interpreter, and what is said wherever its times are shown.
INTERPRETER = "cpu-interpreter"
INTERPRETER_NOTE = (
    "times under Triton's interpreter show that the machinery works; they say nothing about any GPU"
)


class Status(enum.Enum):
    """What became of a rule, or of one row of it."""

    HOLDS = "holds"
    FALSE = "false"
    UNJUDGED = "could not be judged"


class Severity(enum.Enum):
    """Whether a rule that does not hold closes the gate."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class OneOf:
    """Every value of ``column`` is known and one of ``values``."""

    column: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        """Refuse an empty set: nothing could ever satisfy it."""
        if not self.values:
            raise ValueError(f"the expectation over {self.column!r} allows no value")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be known."""
        return (self.column,)

    def __str__(self) -> str:
        """Return the expectation in words."""
        return f"every {self.column} is {' or '.join(repr(v) for v in self.values)}"


@dataclass(frozen=True)
class Between:
    """Every value of ``column`` is known, finite and in [``low``, ``high``]; at least one bound is given."""

    column: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse an expectation without a bound: it would hold for anything."""
        if self.low is None and self.high is None:
            raise ValueError(f"the expectation over {self.column!r} has no bound")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be known."""
        return (self.column,)

    def __str__(self) -> str:
        """Return the expectation in words."""
        bounds = [f"at least {self.low:g}"] if self.low is not None else []
        bounds += [f"at most {self.high:g}"] if self.high is not None else []
        return f"every {self.column} is {' and '.join(bounds)}"


@dataclass(frozen=True)
class AtLeast:
    """In every row ``column`` >= ``bound``, another column of the row; both are known and finite."""

    column: str
    bound: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be known."""
        return (self.column, self.bound)

    def __str__(self) -> str:
        """Return the expectation in words."""
        return f"in every row {self.column} is at least {self.bound}"


Expectation = OneOf | Between | AtLeast


@dataclass(frozen=True)
class Rule:
    """One check: a query, what must be true of each of its rows, and the line that a failing row prints.

    ``line`` is a format string over the query's columns. ``on_failure`` is what a row that breaks an
    expectation means: for most rules that something is false; a damaged file means that nothing can be
    judged. ``on_empty`` is what no rows mean: never that the rule holds, except for a list of warnings.
    ``tables`` are those whose rows make the rule apply, where the rest of its suite applies to more.
    """

    id: str
    about: str
    query: str
    expectations: tuple[Expectation, ...]
    line: str
    severity: Severity = Severity.ERROR
    on_failure: Status = Status.FALSE
    on_empty: Status = Status.UNJUDGED
    empty: str = "there are no rows to judge"
    tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a rule that could pass without looking at anything."""
        if not self.expectations:
            raise ValueError(f"{self.id} expects nothing")
        if self.on_empty is Status.HOLDS and self.severity is Severity.ERROR:
            raise ValueError(f"{self.id} would hold without evidence")

    @property
    def suite(self) -> str:
        """The suite that the rule belongs to: the part of its id before the dot."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Suite:
    """Rules about one kind of evidence; ``tables`` are those whose rows make the suite apply."""

    name: str
    about: str
    rules: tuple[Rule, ...]
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One row that does not hold, in one line, with the row's values."""

    status: Status
    line: str
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleResult:
    """A rule's outcome: the number of rows looked at, and everything that does not hold."""

    rule: Rule
    rows: int
    findings: tuple[Finding, ...]
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """FALSE as soon as one row is, else UNJUDGED as soon as one row could not be judged, else HOLDS."""
        return worst(f.status for f in self.findings)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of ``statuses``: FALSE before UNJUDGED before HOLDS, which is that of none."""
    seen = set(statuses)
    return next((s for s in (Status.FALSE, Status.UNJUDGED) if s in seen), Status.HOLDS)
