"""The rules about served runs and money: they hold over an honest run, and each fails when just its matter is broken."""

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
from tests.queries.served import RUN, repeats, requests, write_served
from warehouse.append import append
from warehouse.build import build

TIMES = {"vllm": (10.0, 10.1, 10.2), "sglang": (12.0, 12.1, 12.2)}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two engines, three repeats each, with their requests and a rate."""
    folder = tmp_path_factory.mktemp("served")
    rows = [row for engine, times in TIMES.items() for row in repeats(engine, *times)]
    write_served(
        folder / "lake",
        rows,
        {"run_id": RUN, "basis": "rate", "rate_usd_per_h": 4.0, "source": "the contract"},
    )
    raw = [
        {**request, "serving_id": row["serving_id"]}
        for row in rows
        for request in requests(TIMES[row["engine"]][row["repeat"]])
    ]
    append(folder / "lake", "serving_requests", raw)
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


def verdict(honest: Path, folder: Path, rule_id: str, validate: Validate, *statements: str) -> RuleResult:
    """What a rule comes to on a copy of the warehouse after some SQL."""
    db = Path(shutil.copy(honest, folder / "copy.db"))
    with duckdb.connect(str(db)) as connection:
        for statement in statements:
            connection.execute(statement)
    with Session(db, None, None, folder) as session:
        return gate.judge_rule(session.con, rule_of(rule_id), validate)


def test_an_honest_run_holds(honest: Path, tmp_path: Path, validate: Validate) -> None:
    rules = [rule.id for name in ("serving", "cost") for rule in SUITES[name].rules]
    results = {rule: verdict(honest, tmp_path, rule, validate) for rule in rules}

    assert {rule: result.status for rule, result in results.items()} == dict.fromkeys(rules, Status.HOLDS)
    assert results["serving.requests-recorded"].rows == 6
    assert results["serving.compared"].rows == 5
    assert results["cost.period"].rows == 1


@pytest.mark.parametrize(
    ("rule", "statement", "finding"),
    [
        (
            "serving.requests-accounted",
            "UPDATE serving_runs SET requests_failed = 1 WHERE repeat = 0 AND engine = 'vllm'",
            "4 completed and 1 failed of 4",
        ),
        ("serving.failures-bounded", "UPDATE serving_runs SET requests_failed = 1", "1 of 4 requests failed"),
        (
            "serving.cache-off",
            "UPDATE serving_runs SET prefix_cache = 'on', prefix_cache_hits = 3",
            "prefix cache on, hits 3",
        ),
        ("serving.requests-recorded", "DELETE FROM serving_requests WHERE request = 3", "3 of 4 requests"),
        (
            "serving.requests-recorded",
            "UPDATE serving_runs SET output_tokens_per_s = 2 * output_tokens_per_s WHERE engine = 'vllm'",
            "throughput is off by 0.5",
        ),
        (
            "serving.requests-recorded",
            "UPDATE serving_runs SET ttft_p50_ms = ttft_p50_ms / 2 WHERE engine = 'vllm'",
            "time to first token by 1",
        ),
        (
            "serving.lengths-reached",
            "UPDATE serving_runs SET output_tokens = 10 WHERE engine = 'vllm'",
            "gave 10 output tokens where 20 were asked for",
        ),
        (
            "serving.client-not-the-bottleneck",
            """UPDATE serving_runs SET extra_json = '{"client_cpu_share": 0.97}'""",
            "used 0.97 of one core",
        ),
        (
            "serving.refused",
            "UPDATE serving_runs SET status = 'refused', reason = 'server-died: x'",
            "server-died: x",
        ),
        (
            "serving.compared",
            "UPDATE serving_runs SET client = engine",
            "no comparison, sglang 1.0 and vllm 1.0",
        ),
        ("cost.period", "UPDATE costs SET basis = 'billing', amount_usd = 3", "has no period"),
        ("cost.period", "UPDATE costs SET run_id = 'nobody'", "its run nobody is not on record"),
        ("cost.basis", "UPDATE costs SET basis = 'guess'", "(guess)"),
        ("cost.source", "UPDATE costs SET source = NULL", "names no source"),
    ],
)
def test_every_rule_can_fail(
    honest: Path, tmp_path: Path, validate: Validate, rule: str, statement: str, finding: str
) -> None:
    result = verdict(honest, tmp_path, rule, validate, statement)

    assert result.status is not Status.HOLDS
    assert finding in result.findings[0].line


def test_measured_runs_that_were_all_refused_leave_nothing_to_hold(
    honest: Path, tmp_path: Path, validate: Validate
) -> None:
    refuse = "UPDATE serving_runs SET status = 'refused'"

    assert verdict(honest, tmp_path, "serving.requests-recorded", validate, refuse).status is Status.UNJUDGED
