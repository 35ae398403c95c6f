"""The gate: every rule of the suites over one warehouse, and the exit code that follows.

Exit codes: 0 everything holds; 1 something is false; 2 the command or configuration is wrong (raised as
:class:`checks.errors.ChecksError`); 3 something could not be judged. With both, 1 is returned and both are
listed: a false statement stays false whatever else is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import duckdb

from checks.errors import UnknownSuiteError
from checks.judge import Validate, broken, judge
from checks.model import Rule, RuleResult, Severity, Status, Suite, worst
from checks.suites import SUITES

# The evidence that a report can rest on; with none of it in the lake, the race suite says so.
EVIDENCE = ("race", "gate", "decode", "serving", "points", "imports")
EXIT_CODES = {Status.HOLDS: 0, Status.FALSE: 1, Status.UNJUDGED: 3}


@dataclass(frozen=True)
class Sentences:
    """How many sentences of the documents hold; those that only quote or are waived prove nothing."""

    bound: int
    hold: int
    quoted: int = 0
    waived: int = 0

    def __str__(self) -> str:
        """Return the counts in words."""
        verb = "holds" if self.hold == 1 else "hold"
        shown = f"{self.hold} of {self.bound} sentence{'' if self.bound == 1 else 's'} {verb}"
        return shown + "".join(
            f", {count} {what}" for count, what in ((self.quoted, "quoted"), (self.waived, "waived")) if count
        )


@dataclass(frozen=True)
class GateResult:
    """What every rule came to, the suites that had nothing to look at, and what became of the sentences.

    ``sentences`` is None where no document was looked at.
    """

    results: tuple[RuleResult, ...]
    not_applicable: tuple[str, ...]
    sentences: Sentences | None = None

    @property
    def errors(self) -> tuple[RuleResult, ...]:
        """Rules that close the gate."""
        return tuple(
            r for r in self.results if r.rule.severity is Severity.ERROR and r.status is not Status.HOLDS
        )

    @property
    def warnings(self) -> tuple[RuleResult, ...]:
        """Rules that are listed and close nothing."""
        return tuple(
            r for r in self.results if r.rule.severity is Severity.WARNING and r.status is not Status.HOLDS
        )

    @property
    def status(self) -> Status:
        """The gate's own status; a gate without a single judged rule could not be judged."""
        judged = [r for r in self.results if r.rule.severity is Severity.ERROR]
        return worst(r.status for r in judged) if judged else Status.UNJUDGED

    @property
    def exit_code(self) -> int:
        """0, 1 or 3."""
        return EXIT_CODES[self.status]

    def count(self, status: Status) -> int:
        """Return the number of rules that close the gate or could, with that status."""
        return sum(r.status is status for r in self.results if r.rule.severity is Severity.ERROR)


def choose(
    con: duckdb.DuckDBPyConnection, names: Sequence[str] = (), without: Collection[str] = ()
) -> tuple[list[Suite], list[str]]:
    """Return the suites to run, and the names of those that have no rows to look at.

    Suites that are asked for by name always run. Otherwise integrity always does, the others where one of
    their tables has rows, and race as well where no suite would look at any evidence; those ``without``
    are left out. A rule with tables of its own applies where one of them has rows: a lake of imported files
    alone has no run that could be registered.

    Raises:
        UnknownSuiteError: a name is no suite.

    """
    unknown = [n for n in names if n not in SUITES]
    if unknown:
        raise UnknownSuiteError(f"there is no suite '{unknown[0]}'; the suites are {', '.join(SUITES)}")
    if names:
        return [SUITES[n] for n in SUITES if n in names], []
    chosen = [s for s in SUITES.values() if s.name not in without and _applies(con, s.tables)]
    if not any(s.name in EVIDENCE for s in chosen):
        chosen.insert(1, SUITES["race"])
    idle = [s.name for s in SUITES.values() if s not in chosen]
    return [replace(s, rules=tuple(r for r in s.rules if _applies(con, r.tables))) for s in chosen], idle


def run(
    con: duckdb.DuckDBPyConnection,
    suites: Sequence[Suite],
    validate: Validate,
    not_applicable: Sequence[str] = (),
    sentences: Sentences | None = None,
) -> GateResult:
    """Judge every rule of ``suites`` over ``con``."""
    results = tuple(judge_rule(con, rule, validate) for suite in suites for rule in suite.rules)
    return GateResult(results, tuple(not_applicable), sentences)


def judge_rule(con: duckdb.DuckDBPyConnection, rule: Rule, validate: Validate) -> RuleResult:
    """Run the rule's query and judge its rows; a query that breaks could not be judged."""
    try:
        frame = con.execute(rule.query).df()
    except duckdb.Error as error:
        return broken(rule, f"the query broke: {' '.join(str(error).split())[:240]}")
    return judge(rule, frame, validate)


def _applies(con: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> bool:
    return not tables or any(_has_rows(con, table) for table in tables)


def _has_rows(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    try:
        return con.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None
    except duckdb.Error:
        return True  # the suite's own queries say what is wrong
