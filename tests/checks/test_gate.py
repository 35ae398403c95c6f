"""The exit code, which suites run, and a query that breaks."""

from __future__ import annotations

import duckdb
import pytest

from checks.errors import UnknownSuiteError
from checks.gate import GateResult, choose, judge_rule
from checks.judge import Validate
from checks.model import Between, Finding, Rule, RuleResult, Severity, Status
from warehouse.schema import TABLES


def result(status: Status, severity: Severity = Severity.ERROR) -> RuleResult:
    rule = Rule("test.rule", "about", "SELECT 1", (Between("x", low=0),), "line", severity=severity)
    return RuleResult(rule, 1, () if status is Status.HOLDS else (Finding(status, "a finding"),))


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 3),
        ([result(Status.HOLDS)], 0),
        ([result(Status.HOLDS), result(Status.UNJUDGED)], 3),
        ([result(Status.UNJUDGED), result(Status.FALSE)], 1),
        ([result(Status.HOLDS), result(Status.FALSE, Severity.WARNING)], 0),
        ([result(Status.HOLDS, Severity.WARNING)], 3),
    ],
)
def test_exit_code(results: list[RuleResult], code: int) -> None:
    assert GateResult(tuple(results), ()).exit_code == code


def test_warnings_are_listed_apart_from_errors() -> None:
    gate = GateResult((result(Status.FALSE), result(Status.UNJUDGED, Severity.WARNING)), ())
    assert [r.status for r in gate.errors] == [Status.FALSE]
    assert [r.status for r in gate.warnings] == [Status.UNJUDGED]
    assert (gate.count(Status.FALSE), gate.count(Status.UNJUDGED)) == (1, 0)


@pytest.fixture
def empty() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name in (*TABLES, "imported_files", "serving_measured"):
        con.execute(f'CREATE TABLE "{name}" (x INTEGER)')
    return con


def test_an_empty_lake_is_asked_for_its_race(empty: duckdb.DuckDBPyConnection) -> None:
    chosen, idle = choose(empty, without=("claims",))
    assert [s.name for s in chosen] == ["integrity", "race"]
    assert idle == ["gate", "decode", "serving", "cost", "points", "imports", "claims"]


def test_suites_follow_the_tables_that_have_rows(empty: duckdb.DuckDBPyConnection) -> None:
    empty.execute("INSERT INTO serving_runs VALUES (1)")
    empty.execute("INSERT INTO costs VALUES (1)")
    assert [s.name for s in choose(empty)[0]] == ["integrity", "serving", "cost", "claims"]


def test_money_is_no_evidence_of_speed(empty: duckdb.DuckDBPyConnection) -> None:
    empty.execute("INSERT INTO costs VALUES (1)")
    assert "race" in [s.name for s in choose(empty)[0]]


def test_a_suite_that_is_asked_for_runs_without_rows(empty: duckdb.DuckDBPyConnection) -> None:
    assert [s.name for s in choose(empty, ["gate"])[0]] == ["gate"]


def test_an_unknown_suite_is_named(empty: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UnknownSuiteError, match="no suite 'speed'"):
        choose(empty, ["race", "speed"])


def test_a_query_that_breaks_is_not_judged(empty: duckdb.DuckDBPyConnection, validate: Validate) -> None:
    rule = Rule("test.rule", "about", "SELECT speedup FROM samples", (Between("speedup", low=1),), "line")
    broken = judge_rule(empty, rule, validate)
    assert broken.status is Status.UNJUDGED
    assert "speedup" in broken.findings[0].line
