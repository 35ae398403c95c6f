"""A claim dies with its evidence: a rival no longer measured, an incomplete cell, another policy or device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.claims.model import Claim, Verdict
from tests.checks.claims.conftest import over
from tests.lakes import POLICY, Race, Refusal, run_id, trio, write
from warehouse.build import build

CELLS = tuple(f"deepseek-moe-16b/bf16/uniform/{t}" for t in (1, 16))
RACE = Race(entrants=trio(95, 110, 120), cells=CELLS, noise=0.002, drift=0.004)
BEATS = "dispatch beats SGLang.<!-- claim: SELECT beats('dispatch', 'sglang', 'deepseek-moe-16b/*/*/*') -->"
WINS = "dispatch wins.<!-- claim: SELECT wins('dispatch', 'deepseek-moe-16b/*/*/*') -->"
NUMBER = (
    "dispatch takes 95.0 us<!-- = SELECT time_us('dispatch', 'deepseek-moe-16b/*/*/1') --> at 1 token, and vLLM wins 0"
    "<!-- = SELECT wins_count('vllm', 'deepseek-moe-16b/*/*/*') --> of 2<!-- = SELECT cells('deepseek-moe-16b/*/*/*') --> cells."
)

Build = Callable[..., Path]


@pytest.fixture
def built(tmp_path: Path) -> Build:
    """Return a function that builds a warehouse from races."""

    def make(*races: Race) -> Path:
        write(tmp_path / "lake", *races)
        build([tmp_path / "lake"], tmp_path / "warehouse.db")
        return tmp_path / "warehouse.db"

    return make


def one(claims: list[Claim]) -> Claim:
    (claim,) = claims
    return claim


def test_the_claims_hold_while_their_evidence_stands(built: Build) -> None:
    db = built(RACE)
    assert [over(db, t, policy=POLICY)[0].verdict for t in (BEATS, WINS, NUMBER)] == [Verdict.HOLDS] * 3


def test_a_rival_that_is_no_longer_measured_makes_the_claim_false(built: Build) -> None:
    newer = replace(RACE, run_id=run_id(5), missing=frozenset(("sglang", c) for c in CELLS), seed=3)
    db = built(newer)
    for text in (BEATS, WINS, NUMBER):
        claim = over(db, text)[0]
        assert claim.verdict is Verdict.FALSE
        assert claim.reason.startswith("stale: deepseek-moe-16b/bf16/uniform/1")
        assert "sglang" in claim.reason


def test_a_refused_rival_leaves_no_win_over_all_of_them(built: Build) -> None:
    db = built(replace(RACE, refusals=(Refusal("sglang", "wrong-output", "contestant", cell_id=CELLS[0]),)))
    claim = one(over(db, WINS))
    assert claim.verdict is Verdict.FALSE
    assert "refused: sglang" in claim.reason
    assert one(over(db, BEATS)).verdict is Verdict.FALSE


def test_another_policy_makes_the_claim_false_and_names_the_key(built: Build) -> None:
    db = built(RACE)
    stricter = POLICY.replace("tie_band = 0.01", "tie_band = 0.02")
    assert stricter != POLICY
    claim = one(over(db, BEATS, policy=stricter))
    assert claim.verdict is Verdict.FALSE
    assert "race.tie_band" in claim.reason
    reworded = POLICY.replace("# Thresholds fixed", "# The thresholds fixed")
    assert reworded != POLICY
    assert one(over(db, BEATS, policy=reworded)).verdict is Verdict.HOLDS


def test_a_second_device_has_to_be_named_in_query_and_sentence(built: Build) -> None:
    db = built(RACE, replace(RACE, device="NVIDIA H200", run_id=run_id(7), entrants=(*trio(95, 110, 120),)))
    assert "give device_name" in one(over(db, BEATS)).reason
    named = BEATS.replace("*/*/*')", "*/*/*', device_name := 'Test GPU')")
    assert "device: the sentence has to say so" in one(over(db, named)).reason
    assert one(over(db, named.replace("SGLang.", "SGLang on the Test GPU."))).verdict is Verdict.HOLDS
    assert one(over(db, named.replace("SGLang.", "SGLang on the H200."))).verdict is Verdict.REJECTED


def test_a_newer_run_that_says_otherwise_makes_the_claim_false(built: Build) -> None:
    db = built(RACE, replace(RACE, run_id=run_id(9), entrants=trio(130, 110, 120), seed=4))
    assert one(over(db, WINS)).verdict is Verdict.FALSE


def test_an_empty_lake_judges_nothing(built: Build) -> None:
    db = built(replace(RACE, cells=("deepseek-moe-16b/bf16/uniform/4096",)))
    text = BEATS.replace("SGLang.", "SGLang at 1 token.").replace("*/*/*'", "*/*/1'")
    assert one(over(db, text)).verdict is Verdict.UNJUDGED
