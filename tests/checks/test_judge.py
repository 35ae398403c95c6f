"""Great Expectations passes and fails for reasons of its own; the judge tells them apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from checks.judge import Validate, judge
from checks.model import AtLeast, Between, Expectation, OneOf, Rule, RuleResult, Status


def judged(validate: Validate, frame: dict[str, Any], *expectations: Expectation, **more: Any) -> RuleResult:
    rule = Rule("test.rule", "about", "SELECT 1", expectations, "cell {cell}: {x}", **more)
    return judge(rule, pd.DataFrame(frame), validate)


def lines(result: RuleResult) -> list[tuple[str, str]]:
    return [(f.status.name, f.line) for f in result.findings]


def test_true_rows_hold(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A", "B"], "x": [1.2, 1.3]}, Between("x", low=1.2))
    assert (result.status, result.rows, result.findings) == (Status.HOLDS, 2, ())


def test_a_false_row_is_named_with_its_numbers(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A", "B"], "x": [1.2, 0.98]}, Between("x", low=1.0))
    assert lines(result) == [("FALSE", "cell B: 0.98")]
    assert result.findings[0].row == {"cell": "B", "x": 0.98}


def test_no_rows_are_no_evidence(validate: Validate) -> None:
    result = judged(validate, {"cell": [], "x": []}, Between("x", low=1.0), empty="nothing was measured")
    assert lines(result) == [("UNJUDGED", "nothing was measured")]


@pytest.mark.parametrize("null", [None, np.nan])
def test_a_null_is_not_judged_and_does_not_hide_a_false_row(validate: Validate, null: Any) -> None:
    result = judged(validate, {"cell": ["A", "B", "C"], "x": [null, 0.5, 1.5]}, Between("x", low=1.0))
    assert sorted(lines(result)) == [("FALSE", "cell B: 0.5"), ("UNJUDGED", "cell A: unknown [x is unknown]")]
    assert result.status is Status.FALSE


def test_all_null_is_not_judged(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A"], "x": [np.nan]}, Between("x", low=1.0))
    assert result.status is Status.UNJUDGED


@pytest.mark.parametrize("bounds", [{"low": 1.0}, {"high": 9.0}])
def test_infinity_is_not_judged(validate: Validate, bounds: dict[str, float]) -> None:
    result = judged(validate, {"cell": ["A", "B"], "x": [2.0, np.inf]}, Between("x", **bounds))
    assert lines(result) == [("UNJUDGED", "cell B: inf [x is not finite]")]


def test_a_text_where_a_number_should_be_is_broken_not_false(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A"], "x": ["fast"]}, Between("x", low=1.0))
    assert result.status is Status.UNJUDGED
    assert "values_are_within_bounds broke" in result.findings[0].line


def test_a_column_that_is_absent_is_named(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A"], "x": [1.0]}, Between("speedup", low=1.0))
    assert lines(result) == [("UNJUDGED", "the query returns no column speedup")]


def test_the_bound_of_a_row_is_that_rows(validate: Validate) -> None:
    frame = {"cell": ["A", "B", "C"], "x": [1.0, 2.0, 3.0], "least": [1.0, 3.0, np.nan]}
    result = judged(validate, frame, AtLeast("x", "least"))
    assert sorted(lines(result)) == [("FALSE", "cell B: 2"), ("UNJUDGED", "cell C: 3 [least is unknown]")]


def test_values_outside_a_set_are_false(validate: Validate) -> None:
    result = judged(validate, {"cell": ["A", "B"], "x": [True, False]}, OneOf("x", (True,)))
    assert lines(result) == [("FALSE", "cell B: False")]


def test_what_failing_means_is_the_rules_to_say(validate: Validate) -> None:
    result = judged(
        validate, {"cell": ["A"], "x": ["damaged"]}, OneOf("x", ("ok",)), on_failure=Status.UNJUDGED
    )
    assert lines(result) == [("UNJUDGED", "cell A: damaged")]


def test_a_validator_without_results_is_no_pass() -> None:
    result = judged(lambda _frame, _rule: [], {"cell": ["A"], "x": [1.0]}, Between("x", low=0))
    assert lines(result) == [("UNJUDGED", "no expectation was evaluated")]


def test_a_failure_that_names_no_row_is_not_judged() -> None:
    fake = [{"success": False, "expectation_config": {"type": "t", "kwargs": {}}, "result": {}}]
    result = judged(lambda _frame, _rule: fake, {"cell": ["A"], "x": [1.0]}, Between("x", low=0))
    assert lines(result) == [("UNJUDGED", "t failed and names no row")]


def test_shared_case_of_claims(validate: Validate, shared_cases: Path) -> None:
    """The rows of the shared case under its claims: c1 false and partly unknown, c3 without rows, c5 broken."""
    rows = json.loads((shared_cases / "repro" / "13_claims.json").read_text())["data"]["speedup"]
    frame = {"cell": [r["cell"] for r in rows], "x": [r["speedup_vs_vllm"] for r in rows]}
    c1 = judged(validate, frame, Between("x", low=1.0))
    assert sorted(lines(c1)) == [("FALSE", "cell C: 0.98"), ("UNJUDGED", "cell B: unknown [x is unknown]")]
    c3 = judged(validate, {"cell": [], "x": []}, Between("x", low=1.0))
    c5 = judged(validate, frame, Between("speedup_vs_vlm", low=1.0))
    assert (c3.status, c5.status) == (Status.UNJUDGED, Status.UNJUDGED)
    assert "speedup_vs_vlm" in c5.findings[0].line
