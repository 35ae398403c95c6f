"""Each format says what failed, where, and how many hold."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from checks.formats import SHOWN, as_json, github, junit, text
from checks.gate import GateResult, Sentences
from checks.model import Between, Finding, Rule, RuleResult, Severity, Status


def result(name: str, *findings: Finding, severity: Severity = Severity.ERROR) -> RuleResult:
    rule = Rule(name, "about it", "SELECT 1", (Between("x", low=0),), "line", severity=severity)
    return RuleResult(rule, 4, findings, 0.25)


@pytest.fixture
def gate() -> GateResult:
    return GateResult(
        (
            result("race.a"),
            result("race.b", Finding(Status.FALSE, "cell 1: missing vllm", {"cell": "1"})),
            result("race.c", Finding(Status.UNJUDGED, "no rows")),
            result("race.d", Finding(Status.FALSE, "throttled: 50%"), severity=Severity.WARNING),
            result("claims.e", Finding(Status.FALSE, "stale", {"document": "a,b.md", "line": 7})),
        ),
        ("serving",),
    )


def test_text(gate: GateResult) -> None:
    assert text(gate).splitlines() == [
        "FALSE  race.b  cell 1: missing vllm",
        "UNJUDGED  race.c  no rows",
        "FALSE  claims.e  stale",
        "WARNING  race.d  throttled: 50%",
        "checks: 1 of 4 rules hold, 2 false, 1 could not be judged, 1 warnings; no rows for: serving",
    ]


@pytest.mark.parametrize(
    ("sentences", "words"),
    [
        (Sentences(8, 1), "1 of 8 sentences holds"),
        (Sentences(1, 1, waived=1), "1 of 1 sentence holds, 1 waived"),
        (Sentences(0, 0, quoted=3), "0 of 0 sentences hold, 3 quoted"),
    ],
)
def test_the_summary_counts_sentences(sentences: Sentences, words: str) -> None:
    gate = GateResult((result("claims.hold"),), ("serving",), sentences)
    assert text(gate) == (
        f"checks: 1 of 1 rules hold, 0 false, 0 could not be judged, 0 warnings; {words}; no rows for: serving"
    )


def test_text_counts_what_it_does_not_print() -> None:
    findings = [Finding(Status.FALSE, f"cell {i}") for i in range(SHOWN + 3)]
    lines = text(GateResult((result("race.b", *findings),), ())).splitlines()
    assert len(lines) == SHOWN + 2
    assert lines[-2] == "... 3 more of race.b; `checks explain race.b`"


def test_json(gate: GateResult) -> None:
    parsed = json.loads(as_json(gate))
    assert parsed["exit_code"] == 1
    assert parsed["counts"] == {"holds": 1, "false": 2, "could not be judged": 1, "warnings": 1}
    (b,) = [r for r in parsed["rules"] if r["id"] == "race.b"]
    assert b["findings"] == [{"status": "false", "line": "cell 1: missing vllm", "row": {"cell": "1"}}]


def test_junit_tells_failures_from_errors(gate: GateResult) -> None:
    root = ET.fromstring(junit(gate))  # noqa: S314 - our own output
    race = root.find("testsuite[@name='race']")
    assert race is not None
    assert (race.get("tests"), race.get("failures"), race.get("errors")) == ("4", "1", "1")
    assert race.find("testcase[@name='race.b']/failure").get("message") == "FALSE: cell 1: missing vllm"  # type: ignore[union-attr]
    assert race.find("testcase[@name='race.c']/error") is not None
    assert race.find("testcase[@name='race.d']/failure") is None
    assert race.find("testcase[@name='race.d']/system-out").text == "WARNING: throttled: 50%"  # type: ignore[union-attr]


def test_github_annotations_stand_at_their_line_and_are_escaped(gate: GateResult) -> None:
    lines = github(gate).splitlines()
    assert "::error file=a%2Cb.md,line=7,title=claims.e::FALSE: stale" in lines
    assert "::warning title=race.d::WARNING: throttled: 50%25" in lines
