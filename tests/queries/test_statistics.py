"""The order-statistic ranks against exact binomial sums."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from pathlib import Path

import duckdb
import pytest

MACROS = Path(__file__).parents[2] / "queries" / "macros" / "10_statistics.sql"


def exact_coverage(n: int, r: int) -> Fraction:
    return 1 - 2 * Fraction(sum(comb(n, k) for k in range(r)), 2**n)


def exact_rank(n: int, confidence: Fraction) -> int | None:
    return max((r for r in range(1, n // 2 + 1) if exact_coverage(n, r) >= confidence), default=None)


@pytest.fixture(scope="module")
def macros() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(MACROS.read_text(encoding="utf-8"))
    return connection


@pytest.mark.parametrize(("rank", "percent"), [(3, 96.14), (2, 99.37), (1, 99.95)])
def test_twelve_rounds(macros: duckdb.DuckDBPyConnection, rank: int, percent: float) -> None:
    (coverage,) = macros.execute("SELECT symmetric_coverage(12, ?)", [rank]).fetchall()[0]
    assert round(100 * coverage, 2) == percent
    assert coverage == pytest.approx(float(exact_coverage(12, rank)), abs=1e-12)


@pytest.mark.parametrize("confidence", ["0.95", "0.99", "0.999"])
def test_ranks_are_exact_for_every_number_of_rounds(
    macros: duckdb.DuckDBPyConnection, confidence: str
) -> None:
    sql = "SELECT n, order_statistic_rank(n, ?::DOUBLE) FROM range(1, 130) t(n) ORDER BY n"
    ranks = dict(macros.execute(sql, [float(confidence)]).fetchall())
    assert ranks == {n: exact_rank(n, Fraction(confidence)) for n in range(1, 130)}


def test_a_coverage_equal_to_the_confidence_reaches_it(macros: duckdb.DuckDBPyConnection) -> None:
    # [1, 3] of three covers exactly 3/4.
    assert macros.execute("SELECT order_statistic_rank(3, 0.75)").fetchall() == [(1,)]


@pytest.mark.parametrize(("n", "confidence"), [(7, 0.99), (10, 0.999), (1, 0.5)])
def test_too_few_rounds_give_no_rank(macros: duckdb.DuckDBPyConnection, n: int, confidence: float) -> None:
    assert macros.execute("SELECT order_statistic_rank(?, ?)", [n, confidence]).fetchall() == [(None,)]


def test_many_rounds(macros: duckdb.DuckDBPyConnection) -> None:
    assert macros.execute("SELECT order_statistic_rank(300, 0.99)").fetchall() == [
        (exact_rank(300, Fraction("0.99")),)
    ]
