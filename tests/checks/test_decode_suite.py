"""The rules about decode hold over an honest run, and each fails when just its own matter is broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from checks import gate
from checks.judge import Validate
from checks.model import RuleResult, Status
from checks.session import Session
from checks.suites import SUITES, rule_of
from tests.evidence import write_decode
from tests.lakes import Race, write
from warehouse.build import build

FALSE, UNJUDGED = Status.FALSE, Status.UNJUDGED
RATES = {
    "stock_eager_bf16": 100.0,
    "grouped_mm_bf16": 120.0,
    "dispatch_bf16": 200.0,
    "dispatch_int8_w8a16": 210.0,
    "dispatch_int8_w8a8": 220.0,
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decode")
    lake = write(folder / "lake", Race())
    write_decode(lake, RATES, device="cpu-interpreter")
    build([lake], folder / "warehouse.db")
    return folder


def verdict(honest: Path, copy: Path, rule_id: str, validate: Validate, *statements: str) -> RuleResult:
    """What a rule comes to on a copy of the warehouse after some SQL."""
    shutil.copy(honest / "warehouse.db", copy)
    with duckdb.connect(str(copy)) as connection:
        for statement in statements:
            connection.execute(statement)
        return gate.judge_rule(connection, rule_of(rule_id), validate)


def test_an_honest_run_holds(honest: Path, validate: Validate, tmp_path: Path) -> None:
    ids = [rule.id for rule in SUITES["decode"].rules]
    results = [verdict(honest, tmp_path / "copy.db", rule_id, validate) for rule_id in ids]
    assert [(r.rule.id, r.findings) for r in results if r.findings] == []
    assert {r.rule.id for r in results if not r.rows} == {"decode.refused"}


RATES_TABLE, STEPS = "decode_rates", "decode_steps"
BROKEN = [
    (
        "decode.configs-complete",
        FALSE,
        f"UPDATE {RATES_TABLE} SET status = 'missing' WHERE config = 'dispatch_bf16'",
        "dispatch_bf16 is missing",
    ),
    (
        "decode.configs-complete",
        FALSE,
        f"UPDATE {RATES_TABLE} SET status = 'refused', fault = 'environment', reason_code = 'out-of-memory'",
        "is refused out-of-memory",
    ),
    ("decode.times-positive", FALSE, f"UPDATE {STEPS} SET time_us = 0 WHERE step = 2", "has a step of 0"),
    (
        "decode.repeats",
        FALSE,
        f"UPDATE {RATES_TABLE} SET repeats = 2",
        "has 2 repeats of 8 steps; the policy",
    ),
    ("decode.repeats", FALSE, f"UPDATE {RATES_TABLE} SET steps = 1", "has 3 repeats of 1 steps"),
    (
        "decode.output-repeats",
        FALSE,
        f"UPDATE {STEPS} SET output_sha256 = 'x' WHERE repeat = 1 AND config = 'dispatch_bf16'",
        "dispatch_bf16 gave 2 different outputs",
    ),
    (
        "decode.output-checked",
        FALSE,
        f"UPDATE {RATES_TABLE} SET status = 'unchecked'",
        "was timed (unchecked)",
    ),
    (
        "decode.output-checked",
        FALSE,
        f"UPDATE {RATES_TABLE} SET first_gap_logits = 1.5 WHERE config = 'dispatch_bf16'",
        "the first that differs by 1.5",
    ),
    (
        "decode.output-checked",
        FALSE,
        f"UPDATE {RATES_TABLE} SET large_gaps = 1 WHERE config = 'dispatch_int8_w8a16'",
        "1 differ by more than 1",
    ),
    ("decode.output-checked", FALSE, f"UPDATE {RATES_TABLE} SET positions = 7", "after 7 checked decisions"),
    (
        "decode.output-checked",
        UNJUDGED,
        "DELETE FROM policy_values WHERE key = 'gate.large_gap_logits'",
        "large_gap_logits",
    ),
    (
        "decode.reference",
        FALSE,
        f"UPDATE {RATES_TABLE} SET disagreements = 1 WHERE config = 'stock_eager_bf16'",
        "differs from itself at 1 of 11",
    ),
    ("decode.kernels-called", FALSE, f"UPDATE {RATES_TABLE} SET kernel_calls = 0", "called dispatch 0 times"),
    (
        "decode.same-subject",
        FALSE,
        f"UPDATE {RATES_TABLE} SET prompt_sha256 = 'x' WHERE config = 'dispatch_bf16'",
        "1 models, 2 prompts",
    ),
    ("decode.possible", FALSE, f"UPDATE {RATES_TABLE} SET least_possible_us = 1e9", "has a step of"),
    (
        "decode.refused",
        FALSE,
        f"UPDATE {RATES_TABLE} SET status = 'refused', reason_code = 'crashed', detail = 'why'",
        "was refused: crashed, why",
    ),
]


@pytest.mark.parametrize(("rule_id", "status", "sql", "line"), BROKEN)
def test_a_broken_matter_is_found(
    honest: Path, validate: Validate, tmp_path: Path, rule_id: str, status: Status, sql: str, line: str
) -> None:
    result = verdict(honest, tmp_path / "copy.db", rule_id, validate, sql)
    assert result.status is status
    assert any(line in finding.line for finding in result.findings), result.findings


def test_one_large_gap_in_a_repeat_is_what_w8a8_may_have(
    honest: Path, validate: Validate, tmp_path: Path
) -> None:
    one = f"UPDATE {RATES_TABLE} SET large_gaps = 1 WHERE config = 'dispatch_int8_w8a8'"
    result = verdict(honest, tmp_path / "copy.db", "decode.output-checked", validate, one)
    assert result.status is Status.HOLDS


def test_a_lake_without_decode_is_not_asked_for_it(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", Race())
    build([lake], tmp_path / "warehouse.db")
    with Session(tmp_path / "warehouse.db", [lake], None, tmp_path) as session:
        assert "decode" not in {result.rule.suite for result in session.gate(()).results}
