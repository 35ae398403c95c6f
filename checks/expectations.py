"""The gate's vocabulary in Great Expectations: built-in expectations under the names that results show.

Importing this module imports Great Expectations (seconds): only :mod:`checks.judge` does so, and only when
something is judged.
"""

from __future__ import annotations

import sys
from typing import Literal

from great_expectations.expectations.core.expect_column_pair_values_a_to_be_greater_than_b import (
    ExpectColumnPairValuesAToBeGreaterThanB,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_column_values_to_not_be_null import (
    ExpectColumnValuesToNotBeNull,
)
from great_expectations.expectations.core.expect_table_row_count_to_be_between import (
    ExpectTableRowCountToBeBetween,
)
from great_expectations.expectations.expectation import Expectation as Expected

from checks.model import AtLeast, Between, Expectation, OneOf

# Without an upper bound an infinite value would pass; pandas frames hold float64.
LARGEST = sys.float_info.max


class RowsArePresent(ExpectTableRowCountToBeBetween):
    """At least one row: on an empty frame most expectations pass."""

    min_value: int = 1
    description: str = "the query returns at least one row"


class ValuesAreKnown(ExpectColumnValuesToNotBeNull):
    """No NULL in the column: value expectations drop NULLs before they count."""

    description: str = "every value is known"


class ValuesAreAllowed(ExpectColumnValuesToBeInSet):
    """Each value is one of a fixed set."""

    description: str = "every value is one of the allowed ones"


class ValuesAreWithinBounds(ExpectColumnValuesToBeBetween):
    """Each value lies in a closed interval."""

    description: str = "every value lies within its bounds"


class ValuesReachTheirBound(ExpectColumnPairValuesAToBeGreaterThanB):
    """In each row the first column is at least the second."""

    or_equal: bool = True
    # That both are known is expected beside it.
    ignore_row_if: Literal["both_values_are_missing", "either_value_is_missing", "neither"] = (
        "either_value_is_missing"
    )
    description: str = "every value reaches the bound in its row"


def translate(expectation: Expectation) -> list[Expected]:
    """Return the Great Expectations form: not-null for every column it reads, then the expectation itself."""
    known: list[Expected] = [ValuesAreKnown(column=c, mostly=1) for c in expectation.columns]
    match expectation:
        case OneOf(column, values):
            return [*known, ValuesAreAllowed(column=column, value_set=list(values))]
        case Between(column, low, high):
            low = -LARGEST if low is None else low
            high = LARGEST if high is None else high
            return [*known, ValuesAreWithinBounds(column=column, min_value=low, max_value=high)]
        case AtLeast(column, bound):
            return [*known, ValuesReachTheirBound(column_A=column, column_B=bound)]
