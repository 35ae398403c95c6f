"""The gate's vocabulary in Great Expectations: built-in expectations under the names that results show.

Importing this module imports Great Expectations (seconds): only :mod:`checks.judge` does so, and only when
something is judged.
"""

from __future__ import annotations

import sys

import great_expectations.expectations as gxe

from checks.model import AtLeast, Between, Expectation, OneOf

# Without an upper bound an infinite value would pass; pandas frames hold float64.
LARGEST = sys.float_info.max


class RowsArePresent(gxe.ExpectTableRowCountToBeBetween):
    """At least one row: on an empty frame most expectations pass."""

    min_value: int = 1
    description: str = "the query returns at least one row"


class ValuesAreKnown(gxe.ExpectColumnValuesToNotBeNull):
    """No NULL in the column: value expectations drop NULLs before they count."""

    description: str = "every value is known"


class ValuesAreAllowed(gxe.ExpectColumnValuesToBeInSet):
    """Each value is one of a fixed set."""

    description: str = "every value is one of the allowed ones"


class ValuesAreWithinBounds(gxe.ExpectColumnValuesToBeBetween):
    """Each value lies in a closed interval."""

    description: str = "every value lies within its bounds"


class ValuesReachTheirBound(gxe.ExpectColumnPairValuesAToBeGreaterThanB):
    """In each row the first column is at least the second."""

    or_equal: bool = True
    ignore_row_if: str = "either_value_is_missing"  # that both are known is expected beside it
    description: str = "every value reaches the bound in its row"


def translate(expectation: Expectation) -> list[gxe.Expectation]:
    """Return the Great Expectations form: not-null for every column it reads, then the expectation itself."""
    known: list[gxe.Expectation] = [ValuesAreKnown(column=c, mostly=1) for c in expectation.columns]
    match expectation:
        case OneOf(column, values):
            return [*known, ValuesAreAllowed(column=column, value_set=list(values))]
        case Between(column, low, high):
            low = -LARGEST if low is None else low
            high = LARGEST if high is None else high
            return [*known, ValuesAreWithinBounds(column=column, min_value=low, max_value=high)]
        case AtLeast(column, bound):
            return [*known, ValuesReachTheirBound(column_A=column, column_B=bound)]
