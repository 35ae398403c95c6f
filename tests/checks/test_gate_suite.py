"""The rules of the gate's suite: each holds over an honest lake, and each has a way to fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from checks import gate
from checks.judge import Validate
from checks.model import RuleResult, Status
from checks.policy import DEFAULT_PATH
from checks.session import Session
from checks.suites import SUITES, rule_of
from tests.evidence import write_gate
from warehouse.build import build

HOLDS, FALSE, UNJUDGED = Status.HOLDS, Status.FALSE, Status.UNJUDGED


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake that holds two gates of one model, and its warehouse."""
    folder = tmp_path_factory.mktemp("gated")
    write_gate(folder / "lake", number=1)
    write_gate(folder / "lake", number=2)
    build([folder / "lake"], folder / "warehouse.db")
    return folder


def judged(
    gated: Path, tmp_path: Path, validate: Validate, rule_id: str, sql: str, policy: Path | None = None
) -> RuleResult:
    db = Path(shutil.copy(gated / "warehouse.db", tmp_path / "copy.db"))
    with duckdb.connect(str(db)) as con:
        con.execute(sql)
    with Session(db, [gated / "lake"], policy, tmp_path) as session:
        return gate.judge_rule(session.con, rule_of(rule_id), validate)


def of(config: str, change: str) -> str:
    return f"UPDATE gate_results SET {change} WHERE config = '{config}'"


BROKEN = [
    (
        "gate.configs-complete",
        FALSE,
        of("auto_bf16", "status = 'refused', reason = 'out-of-memory: no room'"),
        "auto_bf16 is refused: out-of-memory: no room",
    ),
    ("gate.configs-complete", UNJUDGED, "DELETE FROM gate_results", "no run of the gate that they belong to"),
    (
        "gate.control",
        FALSE,
        of("stock_vs_stock", "disagreements = 1"),
        "stock_vs_stock disagrees at 1 of 1036 positions, allowed are 0",
    ),
    ("gate.control", UNJUDGED, "DELETE FROM gate_results WHERE role = 'control'", "the gate has no control"),
    (
        "gate.positions",
        FALSE,
        of("naive_bf16", "positions = 1035"),
        "naive_bf16 has 1035 of 1036 positions",
    ),
    (
        "gate.positions",
        UNJUDGED,
        "UPDATE gate_results SET min_positions = NULL",
        "[min_positions is unknown]",
    ),
    (
        "gate.same-subject",
        FALSE,
        "UPDATE gate_positions SET tokens_sha256 = 'other' WHERE config = 'auto_bf16'",
        "2 texts, 1 models",
    ),
    (
        "gate.same-subject",
        FALSE,
        "DELETE FROM gate_positions WHERE config = 'auto_bf16' AND position = 3",
        "1 models, 2 numbers of positions",
    ),
    (
        "gate.same-subject",
        FALSE,
        "UPDATE gate_attempts SET reference_sha256 = config WHERE config LIKE 'auto%'",
        "1 numbers of positions, 3 references",
    ),
    (
        "gate.kernels-called",
        FALSE,
        of("naive_bf16", "kernel_calls = 0, status = 'void'"),
        "naive_bf16 called its kernel 0 times in some layer",
    ),
    ("gate.kernels-called", UNJUDGED, of("naive_bf16", "kernel_calls = NULL"), "[kernel_calls is unknown]"),
    (
        "gate.agreement",
        FALSE,
        of("auto_int8_w8a8", "agreement = 0.79"),
        "auto_int8_w8a8 agrees in 0.79 of the positions, at least 0.8 are asked",
    ),
    (
        "gate.agreement",
        UNJUDGED,
        "DELETE FROM gate_results WHERE role = 'candidate'",
        "no candidate was measured",
    ),
    (
        "gate.large-gaps",
        FALSE,
        of("auto_bf16", "large_gaps = 1, large_gap_share = 0.001"),
        "has 1 gaps over 1 logits",
    ),
    (
        "gate.perplexity",
        FALSE,
        of("auto_bf16", "perplexity_increase = 0.011"),
        "higher by 0.011, at most 0.01",
    ),
    ("gate.drift", FALSE, of("auto_bf16", "drift_ratio = 1.6"), "drifts 1.6 times as far"),
    ("gate.drift", UNJUDGED, of("auto_bf16", "drift_ratio = NULL"), "[drift_ratio is unknown]"),
    ("gate.experts", FALSE, of("auto_bf16", "gain_error = 0.02"), "gain off by 0.02 (at most 0.005)"),
    ("gate.experts", FALSE, of("auto_bf16", "expert_error = 0.02"), "has error 0.02 (at most 0.01)"),
    ("gate.experts", UNJUDGED, of("auto_bf16", "experts = NULL"), "[experts is unknown]"),
    (
        "gate.no-worse-than-stock",
        FALSE,
        of("auto_bf16", "p_worse = 0.009, stock_only_right = 20"),
        "auto_bf16 is wrong at 20 positions where stock is right",
    ),
    ("gate.no-worse-than-stock", FALSE, of("auto_bf16", "pairs = 1000"), "1000 pairs at 1036 positions"),
    ("gate.no-worse-than-stock", UNJUDGED, of("auto_bf16", "p_worse = NULL"), "[p_worse is unknown]"),
    (
        "gate.verdicts",
        FALSE,
        of("auto_bf16", "verdict = 'failed', reason = 'drift'"),
        "auto_bf16 is failed: drift",
    ),
    (
        "gate.policy-unchanged",
        FALSE,
        "UPDATE policies SET policy_toml = replace(policy_toml, 'bf16 = 0.95', 'bf16 = 0.5')",
        "gate.min_agreement.bf16 was 0.5, is 0.95",
    ),
    ("gate.policy-unchanged", UNJUDGED, "DELETE FROM policies", "[changed is unknown]"),
    (
        "gate.policy-as-registered",
        FALSE,
        "UPDATE policies SET policy_toml = replace(policy_toml, 'bf16 = 0.95', 'bf16 = 0.5')",
        "the text stored under it has the hash",
    ),
    ("gate.policy-as-registered", UNJUDGED, "DELETE FROM policies", "[agrees is unknown]"),
    ("gate.measured-once", FALSE, "SELECT 1", "is superseded by run 20260101T000200Z-00000002"),
    (
        "gate.repeats",
        UNJUDGED,
        "UPDATE gate_results SET verdict = 'failed' WHERE config = 'auto_bf16' AND run_id LIKE '%1'",
        "auto_bf16 came to failed, passed in 2 runs of the same sources",
    ),
    ("gate.sources-clean", FALSE, "UPDATE run_status SET source_dirty = TRUE", "from modified sources"),
]


@pytest.mark.parametrize(("rule_id", "status", "sql", "says"), BROKEN)
def test_a_broken_rule_says_what_is_broken(
    gated: Path, tmp_path: Path, validate: Validate, rule_id: str, status: Status, sql: str, says: str
) -> None:
    result = judged(gated, tmp_path, validate, rule_id, sql)
    assert result.status is status
    assert any(says in finding.line for finding in result.findings), [f.line for f in result.findings]


def test_every_rule_has_a_way_to_fail_and_holds_over_an_honest_lake(gated: Path, tmp_path: Path) -> None:
    assert {r.id for r in SUITES["gate"].rules} == {b[0] for b in BROKEN}
    with Session(gated / "warehouse.db", [gated / "lake"], None, tmp_path) as session:
        result = session.gate(("gate",))
    assert result.exit_code == 0, [f.line for r in result.errors for f in r.findings]
    assert {r.rule.id for r in result.results if r.rule.suite == "gate"} == {b[0] for b in BROKEN}
    assert [r.rule.id for r in result.warnings] == ["gate.measured-once"]


def test_a_threshold_loosened_after_the_run_changes_no_verdict_and_is_named(
    tmp_path: Path, validate: Validate
) -> None:
    """An agreement of 0.8996 fails under the policy of the run; today's policy would let it pass."""
    lake = tmp_path / "lake"
    write_gate(lake, disagreements={"auto_bf16": 114})
    loose = tmp_path / "policy.toml"
    text = DEFAULT_PATH.read_text(encoding="utf-8")
    before = "[gate.min_agreement_seeded]\nbf16 = 0.90"
    assert before in text
    loose.write_text(text.replace(before, "[gate.min_agreement_seeded]\nbf16 = 0.80"), encoding="utf-8")
    build([lake], tmp_path / "warehouse.db")
    with Session(tmp_path / "warehouse.db", [lake], loose, tmp_path) as session:
        result = session.gate(("gate",))
    lines = {r.rule.id: [f.line for f in r.findings] for r in result.errors}
    assert result.exit_code == 1
    assert "auto_bf16 agrees in 0.89 of the positions, at least 0.9 are asked" in lines["gate.agreement"][0]
    assert "gate.min_agreement_seeded.bf16 was 0.9, is 0.8" in lines["gate.policy-unchanged"][0]
