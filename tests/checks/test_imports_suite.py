"""The rules about imported files: they hold over honest imports, and each fails when just its own matter is broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from checks import gate
from checks.judge import Validate
from checks.model import RuleResult, Status
from checks.suites import SUITES, rule_of
from tests.warehouse.importers.samples import SAMPLES, lines, sglang_run
from warehouse.build import build
from warehouse.importers.importing import import_paths


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of imports alone: a run with requests, a tuned table, and a line that stands twice."""
    folder = tmp_path_factory.mktemp("imports")
    results = folder / "results"
    results.mkdir()
    for name in ("vllm-serve", "moe-configs", "units-csv"):
        file_name, content = SAMPLES[name]
        (results / file_name).write_bytes(content)
    (results / "sglang.jsonl").write_text(lines(sglang_run(), sglang_run()))
    list(import_paths([results], folder / "lake"))
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


def verdict(honest: Path, copy: Path, rule_id: str, validate: Validate, statement: str = "") -> RuleResult:
    """What a rule comes to on a copy of the warehouse after some SQL."""
    shutil.copy(honest, copy)
    with duckdb.connect(str(copy)) as connection:
        if statement:
            connection.execute(statement)
        return gate.judge_rule(connection, rule_of(rule_id), validate)


def test_honest_imports_hold(honest: Path, validate: Validate, tmp_path: Path) -> None:
    for rule in SUITES["imports"].rules:
        result = verdict(honest, tmp_path / "copy.db", rule.id, validate)
        assert (result.status, result.rows) == (Status.HOLDS, 4), result.findings


@pytest.mark.parametrize(
    ("rule", "statement", "finding"),
    [
        (
            "imports.on-record",
            "DELETE FROM imports WHERE format = 'sglang-serve'",
            "come from no import on record",
        ),
        (
            "imports.on-record",
            "UPDATE points SET import_id = 'x'",
            "8 rows of x come from no import on record",
        ),
        ("imports.accounted", "UPDATE imports SET records_in = 9 WHERE format = 'vllm-serve'", "run.json"),
        (
            "imports.accounted",
            "UPDATE imports SET refusals_json = NULL WHERE refused > 0 AND format = 'sglang-serve'",
            "2 records, 1 rows, 1 refused, 0 named",
        ),
        (
            "imports.present",
            "DELETE FROM serving_requests WHERE request = 1",
            "gave 5 rows, of which 4 are here",
        ),
        ("imports.present", "DELETE FROM tuned_configs", "of which 0 are here"),
    ],
)
def test_every_rule_can_fail(
    honest: Path, validate: Validate, tmp_path: Path, rule: str, statement: str, finding: str
) -> None:
    result = verdict(honest, tmp_path / "copy.db", rule, validate, statement)
    assert result.status is Status.FALSE
    assert finding in result.findings[0].line


def test_a_lake_of_imports_alone_is_asked_for_nothing_that_it_cannot_have(honest: Path) -> None:
    with duckdb.connect(str(honest), read_only=True) as connection:
        chosen, idle = gate.choose(connection, without=("claims",))
    assert [suite.name for suite in chosen] == ["integrity", "serving", "points", "imports"]
    assert "race" in idle
    asked = {rule.id for suite in chosen for rule in suite.rules}
    assert "integrity.files-readable" in asked
    assert asked.isdisjoint({"integrity.runs-registered", "integrity.samples-have-cell", "serving.cache-off"})


def test_one_measured_run_brings_its_rules_back(honest: Path, tmp_path: Path) -> None:
    shutil.copy(honest, tmp_path / "copy.db")
    with duckdb.connect(str(tmp_path / "copy.db")) as connection:
        connection.execute("UPDATE serving_runs SET evidence = 'measured' WHERE engine = 'sglang'")
        asked = {rule.id for suite in gate.choose(connection)[0] for rule in suite.rules}
    assert asked >= {"integrity.runs-registered", "serving.cache-off", "serving.requests-accounted"}
    assert "integrity.samples-have-cell" not in asked
