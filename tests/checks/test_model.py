"""Rules that could pass without looking at anything cannot be made."""

import pytest

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Status, worst
from checks.suites import SUITES, rule_of


def rule(*expectations: OneOf | Between | AtLeast, **more: object) -> Rule:
    return Rule("test.rule", "about", "SELECT 1", expectations, "line", **more)  # type: ignore[arg-type]


def test_an_expectation_without_a_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="has no bound"):
        Between("x")


def test_an_expectation_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="allows no value"):
        OneOf("x", ())


def test_a_rule_that_expects_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expects nothing"):
        rule()


def test_only_a_warning_may_hold_without_rows() -> None:
    with pytest.raises(ValueError, match="without evidence"):
        rule(Between("x", low=1), on_empty=Status.HOLDS)
    assert rule(Between("x", low=1), on_empty=Status.HOLDS, severity=Severity.WARNING).suite == "test"


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], Status.HOLDS),
        ([Status.HOLDS, Status.UNJUDGED], Status.UNJUDGED),
        ([Status.UNJUDGED, Status.FALSE, Status.HOLDS], Status.FALSE),
    ],
)
def test_the_worst_status_counts(statuses: list[Status], expected: Status) -> None:
    assert worst(statuses) is expected


def test_every_rule_belongs_to_its_suite_and_is_found_by_its_id() -> None:
    for suite in SUITES.values():
        for one in suite.rules:
            assert one.suite == suite.name
            assert rule_of(one.id) is one
    ids = [r.id for s in SUITES.values() for r in s.rules]
    assert len(ids) == len(set(ids))
