"""The rules about imported figures hold over an honest import, and each fails when just its own matter is broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from checks import gate
from checks.judge import Validate
from checks.model import RuleResult, Status
from checks.suites import SUITES, rule_of
from tests.warehouse.importers.other_samples import PERF
from warehouse.build import build
from warehouse.importers.base import Given
from warehouse.importers.importing import import_paths


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with one imported table, of which two figures are missing."""
    folder = tmp_path_factory.mktemp("points")
    table = folder / "moe.csv"
    table.write_text(PERF, encoding="utf-8")
    list(import_paths([table], folder / "lake", None, Given(unit="ms", direction="lower")))
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


def verdict(honest: Path, copy: Path, rule_id: str, validate: Validate, statement: str = "") -> RuleResult:
    """What a rule comes to on a copy of the warehouse after some SQL."""
    shutil.copy(honest, copy)
    with duckdb.connect(str(copy)) as connection:
        if statement:
            connection.execute(statement)
        return gate.judge_rule(connection, rule_of(rule_id), validate)


def test_an_honest_import_holds(honest: Path, validate: Validate, tmp_path: Path) -> None:
    for rule in SUITES["points"].rules:
        result = verdict(honest, tmp_path / "copy.db", rule.id, validate)
        assert (result.status, result.rows > 0) == (Status.HOLDS, True), result.findings


@pytest.mark.parametrize(
    ("rule", "statement", "finding"),
    [
        ("points.evidence", "UPDATE points SET evidence = 'measured'", "calls itself measured"),
        ("points.source", "DELETE FROM imports", "is not on record"),
        ("points.source", "UPDATE imports SET records_in = 5", "lost records"),
        ("points.source", "UPDATE imports SET records_in = 5, refused = 1", "refused records without a name"),
        ("points.explained", "UPDATE points SET reason = NULL", "has no value and no reason"),
        (
            "points.explained",
            "UPDATE points SET status = 'refused', reason = NULL WHERE row = 0",
            "figure 0 of",
        ),
        (
            "points.never-win",
            "ALTER VIEW points_pairs RENAME TO honest_pairs; "
            "CREATE VIEW points_pairs AS SELECT * REPLACE ('win' AS outcome) FROM honest_pairs",
            "is called win",
        ),
    ],
)
def test_what_is_broken_is_found(
    honest: Path, validate: Validate, tmp_path: Path, rule: str, statement: str, finding: str
) -> None:
    result = verdict(honest, tmp_path / "copy.db", rule, validate, statement)
    assert result.status is Status.FALSE
    assert any(finding in str(found) for found in result.findings), result.findings
