"""Printed numbers: digits, units and the interval that they stand for."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.claims.printed import Printed, convert, decimal_of, header_unit, number_before, numbers


def one(text: str) -> Printed:
    (number,) = numbers(text)
    return number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("is 1.3x slower", [("1.3", "x")]),
        ("1.2x to 1.5x", [("1.2", "x"), ("1.5", "x")]),
        ("1.2-1.5x", [("1.2", "x"), ("1.5", "x")]),
        ("6 to 9 percent", [("6", "%"), ("9", "%")]),
        ("187.5 us, 1.2 ms and 3 s", [("187.5", "us"), ("1.2", "ms"), ("3", "s")]),
        ("12 \u00b5s", [("12", "us")]),
        ("1,269.2 tokens/s", [("1269.2", "tokens/s")]),
        ("108.6 tokens per second", [("108.6", "tokens/s")]),
        ("$1.97 per million", [("1.97", "USD")]),
        ("4.2 TB/s or 700 TFLOP/s", [("4.2", "TB/s"), ("700", "TFLOP/s")]),
        ("12 of 14 cells", [("12", "cells"), ("14", "cells")]),
        ("all 28 measured combinations", [("28", "cells")]),
        ("1.3-fold, 1.3 \u00d7, 2 times", [("1.3", "x"), ("1.3", "x"), ("2", "x")]),
        ("64 x 2048 at int8_w8a8 on an H200, v1.2.3", [("64", None), ("2048", None)]),
        ("1.2k tokens/s", [("1200", "tokens/s")]),
    ],
)
def test_numbers_are_read_with_their_units(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert [(n.value, n.unit) for n in numbers(text)] == [(Decimal(v), u) for v, u in expected]


@pytest.mark.parametrize(
    ("printed", "value", "holds"),
    [
        ("1.35", "1.345", True),
        ("1.35", "1.3549999", True),
        ("1.35", "1.355", False),
        ("1.35", "1.3449999", False),
        ("1.3", "1.25", True),
        ("1200", "1199.5", True),
        ("1200", "1200.5", False),
        ("0.0949", "0.09485", True),
    ],
)
def test_a_printed_number_stands_for_what_rounds_to_it(printed: str, value: str, holds: bool) -> None:
    assert one(printed).stands_for(Decimal(value)) is holds


def test_the_edge_is_decided_on_decimals_not_on_floats() -> None:
    # As a binary float 1.345 lies under the edge; as the decimal that it prints as it lies on it.
    exact = decimal_of(1.345)
    assert exact == Decimal("1.345")
    assert one("1.35").stands_for(exact)


@given(st.decimals(min_value=Decimal("0.01"), max_value=Decimal(10000), places=5), st.integers(0, 4))
def test_printing_a_value_gives_a_number_that_stands_for_it(value: Decimal, places: int) -> None:
    like = one(f"{Decimal(1):.{places}f}")
    assert one(like.printing(value)).stands_for(value)


def test_only_times_convert() -> None:
    assert convert(Decimal(1500), "us", "ms") == Decimal("1.5")
    assert convert(Decimal(2), "s", "us") == Decimal(2000000)
    assert convert(Decimal(1500), "GB/s", "TB/s") is None
    assert convert(Decimal(1), "x", "%") is None


@pytest.mark.parametrize("value", [None, True, "1.3", float("nan"), float("inf")])
def test_what_is_no_finite_number_has_no_decimal(value: object) -> None:
    assert decimal_of(value) is None


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("is 1.3x slower", 7, ["1.3"]),
        ("is 1.3x slower", 6, ["1.3"]),  # the unit behind the comment
        ("is 12 of 14", 5, ["12"]),
        ("is 1.25x", 6, []),  # the digits go on behind the comment
        ("(1.3x) slower", 6, ["1.3"]),
        ("1.2x to 1.5x faster", 12, ["1.2", "1.5"]),
        ("slower than that", 6, []),
        ("version v1.3 here", 12, []),
    ],
)
def test_a_comment_binds_the_number_that_ends_where_it_stands(
    text: str, offset: int, expected: list[str]
) -> None:
    assert [n.text for n in number_before(text, offset)] == expected


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("time (us)", "us"),
        ("dispatch [ms]", "ms"),
        ("speedup over vLLM", "x"),
        ("tokens", None),
        ("share %", "%"),
    ],
)
def test_a_header_may_carry_the_unit(header: str, unit: str | None) -> None:
    assert header_unit(header) == unit
