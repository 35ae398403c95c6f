"""What a cell's outcome is, and why it is never a win when evidence is missing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.queries.conftest import Database, MakeDatabase
from tests.queries.scenarios import FAST, NAMES, SCENARIOS, Scenario


@pytest.fixture(scope="module")
def db(make_db: MakeDatabase) -> Database:
    return make_db(*(race for scenario in SCENARIOS for race in scenario.placed()))


def filled(value: object, scenario: Scenario) -> object:
    if not isinstance(value, str):
        return value
    return value.format(*(scenario.run_id(i) for i in range(len(scenario.races))))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)
def test_outcome(db: Database, scenario: Scenario) -> None:
    row = db.row("FROM winners WHERE device = ?", scenario.name)
    expected = {column: filled(value, scenario) for column, value in scenario.expect.items()}
    assert {column: row[column] for column in expected} == expected


def test_names_of_scenarios_are_distinct() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_margin_and_its_intervals(db: Database) -> None:
    row = db.row("FROM winners WHERE device = 'win'")
    assert row["margin"] == pytest.approx(100 / 90, rel=0.005)
    assert 1.01 < row["margin_lo_wide"] <= row["margin_lo"] < row["margin"]
    assert row["margin"] < row["margin_hi"] <= row["margin_hi_wide"]


def test_the_interval_is_made_of_the_ordered_ratios_of_the_rounds(db: Database) -> None:
    medians = {
        (row["contestant"], row["round"]): row["median_us"]
        for row in db.rows(
            "FROM round_medians SEMI JOIN winners USING (run_id) WHERE contestant IN ('dispatch', 'vllm') "
            "AND run_id = (SELECT run_id FROM winners WHERE device = 'win')"
        )
    }
    ratios = sorted(medians["vllm", i] / medians["dispatch", i] for i in range(12))
    row = db.row("FROM winners WHERE device = 'win'")
    # Rank 2 of 12 at 99 %, rank 1 at 99.9 %.
    assert (row["margin_lo"], row["margin_hi"]) == pytest.approx((ratios[1], ratios[10]), rel=1e-12)
    assert (row["margin_lo_wide"], row["margin_hi_wide"]) == pytest.approx((ratios[0], ratios[11]), rel=1e-12)
    assert row["margin"] == pytest.approx((ratios[5] + ratios[6]) / 2, rel=1e-12)


def test_inconclusive_names_the_rival_and_the_interval(db: Database) -> None:
    row = db.row("FROM winners WHERE device = 'between tie and win'")
    pattern = r"dispatch against vllm is 1\.0\d+ \[1\.\d+, 1\.\d+\], the band is 0\.01\d+"
    assert re.fullmatch(pattern, row["reason"])


def test_a_ratio_across_conditions_is_null_with_a_reason(db: Database) -> None:
    ratios = {
        row["rival"]: row
        for row in db.rows("FROM ratios WHERE device = 'another l2_state' AND contestant = 'dispatch'")
    }
    assert ratios["vllm"]["reason"] == "conditions differ: l2_state: flushed against warm"
    assert {ratios["vllm"][c] for c in ("speedup_vs_rival", "lo", "hi", "lo_wide", "hi_wide")} == {None}
    assert ratios["sglang"]["speedup_vs_rival"] > 1


def test_a_ratio_of_the_missing_is_null_with_a_reason(db: Database) -> None:
    row = db.row(
        "FROM ratios WHERE device = 'vllm has no samples' AND contestant = 'dispatch' AND rival = 'vllm'"
    )
    assert (row["speedup_vs_rival"], row["reason"]) == (None, "vllm is missing (no-samples)")


def test_too_few_rounds_give_no_interval_and_say_so(db: Database) -> None:
    row = db.row("FROM ratios WHERE device = '7 rounds' AND contestant = 'dispatch' AND rival = 'vllm'")
    assert row["speedup_vs_rival"] > 1
    assert (row["lo"], row["hi"], row["lo_wide"], row["hi_wide"]) == (None, None, None, None)
    assert row["reason"] == "7 rounds are too few for an interval of confidence 0.99"


def test_noise_floor_is_the_quantile_of_the_controls_deviation(db: Database) -> None:
    (scenario,) = (s for s in SCENARIOS if s.name == "win")
    medians = db.rows(
        "FROM round_medians WHERE run_id = ? AND contestant LIKE 'dispatch%' ORDER BY round, contestant",
        scenario.run_id(0),
    )
    deviations = sorted(
        abs(control["median_us"] / original["median_us"] - 1)
        for original, control in zip(medians[::2], medians[1::2], strict=True)
    )
    assert len(deviations) == 12
    place, share = divmod(0.95 * 11, 1)
    expected = deviations[int(place)] * (1 - share) + deviations[int(place) + 1] * share
    floor = db.row("FROM noise_floors WHERE run_id = ?", scenario.run_id(0))
    assert floor["noise_floor"] == pytest.approx(expected, rel=1e-9)
    assert floor["pairs"] == 12
    assert floor["tie_band"] == max(0.01, floor["noise_floor"])


def test_a_sticky_refusal_keeps_what_was_measured_visible(db: Database) -> None:
    row = db.row(
        "FROM contestant_status WHERE device = 'wrong output in one session sticks' "
        "AND contestant = 'dispatch'"
    )
    assert (row["status"], row["reason_code"], row["fault"]) == ("refused", "wrong-output", "contestant")
    assert row["rounds"] == 10


def test_invalid_times_are_refusals_that_the_view_derives(db: Database) -> None:
    row = db.row("FROM refusals WHERE device = 'times that are not positive'")
    assert (row["contestant"], row["reason_code"], row["stage"]) == ("vllm", "invalid-time", "samples")
    assert row["detail"] == "60 of 60 times are not positive"


def test_a_refusal_that_was_overcome_does_not_stand(db: Database) -> None:
    row = db.row("FROM refusals WHERE device = 'a worker died once and enough rounds remain'")
    assert (row["reason_code"], row["stands"]) == ("worker-died", False)


def test_completeness_says_what_winners_says(db: Database) -> None:
    rows = db.rows("SELECT c.complete, w.outcome FROM completeness c JOIN winners w USING (run_id)")
    assert len(rows) == len(SCENARIOS)
    assert all(row["complete"] == (row["outcome"] != "incomplete") for row in rows)


def test_a_planned_mode_without_a_sample_is_incomplete_and_not_absent(make_db: MakeDatabase) -> None:
    rows = make_db(replace(FAST, planned_modes=("eager",))).rows("FROM winners")
    assert {row["timing_mode"]: row["outcome"] for row in rows} == {"graph": "win", "eager": "incomplete"}
