"""Units, and values out of documents that change."""

from __future__ import annotations

import math
from typing import Any

import pytest

from warehouse.importers.pick import at, first, integer, number, whole
from warehouse.importers.units import measure


@pytest.mark.parametrize(
    ("unit", "metric", "scale", "lower"),
    [
        ("s", "time_us", 1e6, True),
        ("ms", "time_us", 1e3, True),
        (" us ", "time_us", 1.0, True),
        ("\u00b5s", "time_us", 1.0, True),
        ("ns", "time_us", 1e-3, True),
        ("TFLOPS", "tflops", 1.0, False),
        ("TFLOP/s", "tflops", 1.0, False),
        ("GFLOPS", "tflops", 1e-3, False),
        ("GB/s", "gb_per_s", 1.0, False),
        ("TB/s", "gb_per_s", 1e3, False),
        ("tokens/sec", "tokens_per_s", 1.0, False),
        ("requests/sec", "requests_per_s", 1.0, False),
        ("MB", "memory_mb", 1.0, True),
    ],
)
def test_a_unit_becomes_the_lake_s(unit: str, metric: str, scale: float, lower: bool) -> None:
    known = measure(unit)
    assert known is not None
    assert (known.metric, known.scale, known.lower_is_better) == (metric, scale, lower)


@pytest.mark.parametrize("unit", [None, "", "x", "Gbps", "%", "tokens"])
def test_what_is_no_unit_is_none(unit: str | None) -> None:
    assert measure(unit) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0.041", 0.041),
        (3, 3.0),
        ("", None),
        ("nan", None),
        ("1e999", None),
        (True, None),
        ("1,020.58", None),
    ],
)
def test_a_number_may_be_written_as_text(value: Any, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("128", 128), ("128.0", 128), (2.5, None), (-1, None), ("x", None)]
)
def test_a_whole_number_may_be_written_as_text(value: Any, expected: int | None) -> None:
    assert integer(value) == expected


def test_a_path_that_breaks_off_is_none() -> None:
    document = {"a": [{"b": 1}]}
    assert at(document, "a", 0, "b") == 1
    assert [at(document, *path) for path in (("a", 1), ("a", "b"), ("c", 0), (0,))] == [None] * 4
    assert (first(None, 0, 1), first(None)) == (0, None)


@pytest.mark.parametrize(
    ("mean", "members", "expected"),
    [
        (159.18, 100, 15918),
        (120.33, 10, None),
        (None, 10, None),
        (1.0, None, None),
        (-1.0, 2, None),
        (math.inf, 2, None),
    ],
)
def test_a_sum_comes_from_a_mean_only_where_it_is_whole(
    mean: float | None, members: int | None, expected: int | None
) -> None:
    assert whole(mean, members) == expected
