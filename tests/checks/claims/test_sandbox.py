"""Questions can neither touch the lake nor anything else, and a tautology proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.claims.sandbox import QueryBrokeError, QueryRefusedError, Sandbox
from checks.errors import NoDatabaseError


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "DROP TABLE samples",
        "SELECT 1; SELECT 2",
        "ATTACH '/tmp/x.db'",
        "COPY winners TO '/tmp/x.csv'",
        "PRAGMA version",
        "SET threads = 1",
        "INSTALL httpfs",
        "CREATE TABLE memory.x AS SELECT 1",
        "SELECT random() < 2 FROM winners",
        "SELECT now() > '2000-01-01' FROM winners",
        "SELECT FROM WHERE",
    ],
)
def test_anything_but_one_select_over_the_lake_is_refused(sandbox: Sandbox, sql: str) -> None:
    with pytest.raises(QueryRefusedError):
        sandbox.ask(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM glob('/*')", "SELECT * FROM nowhere"]
)
def test_files_cannot_be_read(sandbox: Sandbox, sql: str) -> None:
    with pytest.raises(QueryBrokeError):
        sandbox.ask(sql)


def test_a_question_has_a_time_limit_and_a_row_limit(world: tuple[Path, Path]) -> None:
    sandbox = Sandbox(world[1], seconds=0.3, max_rows=10)
    with pytest.raises(QueryBrokeError, match="longer than"):
        sandbox.ask("SELECT count(*) FROM samples a, samples b, samples c")
    with pytest.raises(QueryBrokeError, match="more than 10 rows"):
        sandbox.ask("SELECT run_id FROM samples")
    sandbox.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1.3",
        "SELECT true FROM winners",
        "SELECT count(*) >= 0 FROM winners",
        "SELECT time_us > 0 OR true FROM samples",
        "SELECT tokens = 128 OR 1 = 1 FROM winners",
        "SELECT tokens = tokens FROM winners",
        "SELECT count(*) > 3 FROM goals",
        "SELECT bool_and(x > 0) FROM (VALUES (1), (2)) t(x)",
        "SELECT coalesce(max(tokens) > 0, true) FROM winners",
        "WITH winners AS (SELECT 1 AS a) SELECT a = 1 FROM winners",
    ],
)
def test_what_is_true_without_evidence_proves_nothing(sandbox: Sandbox, sql: str) -> None:
    assert sandbox.why_it_proves_nothing(sql) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) > 3 FROM winners",
        "SELECT bool_and(time_us > 0) FROM samples",
        "SELECT wins('dispatch', '*/*/*/1')",
        "SELECT max(tokens) FROM cells",
    ],
)
def test_what_needs_the_evidence_may_prove_something(sandbox: Sandbox, sql: str) -> None:
    assert sandbox.why_it_proves_nothing(sql) is None


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoDatabaseError, match="there is no warehouse"):
        Sandbox(tmp_path / "no.db")
    (tmp_path / "text.db").write_text("no database " * 1000, encoding="utf-8")
    with pytest.raises(NoDatabaseError, match="is no warehouse"):
        Sandbox(tmp_path / "text.db")
