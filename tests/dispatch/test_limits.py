"""Limits, just below and just above."""

from __future__ import annotations

import pytest

from dispatch import LimitError
from dispatch.limits import INT32_MAX, MAX_EXPERTS, MAX_GRID, check_grid, check_sizes, passes_int32

SMALL = {"w13": (64, 32)}


@pytest.mark.parametrize(
    ("count", "stride", "passes"),
    [(2**20, 2**11, False), (2**20 + 1, 2**11, True), (1, 2**31, False), (1, 2**31 + 1, True), (0, 8, False)],
)
def test_the_last_element_counts_not_the_number_of_elements(count, stride, passes):
    assert passes_int32(count, stride) is passes


def test_slots():
    check_sizes(INT32_MAX, 1, 8, SMALL)
    check_sizes(INT32_MAX // 8, 8, 8, SMALL)
    with pytest.raises(LimitError, match="268435456 tokens x top-8 are more slots"):
        check_sizes(INT32_MAX // 8 + 1, 8, 8, SMALL)


def test_experts():
    check_sizes(1, 1, MAX_EXPERTS, SMALL)
    with pytest.raises(LimitError, match="4096 experts, and the schedule holds at most 4095"):
        check_sizes(1, 1, MAX_EXPERTS + 1, SMALL)


def test_the_matrix_of_one_expert():
    check_sizes(1, 1, 8, {"w2": (2**16, 2**15)})
    with pytest.raises(LimitError, match="w2: one expert spans 65537 rows x 32768 elements"):
        check_sizes(1, 1, 8, {"w2": (2**16 + 1, 2**15)})


def test_grids():
    assert check_grid(MAX_GRID, "naive") == MAX_GRID
    with pytest.raises(LimitError, match="naive: the launch needs 2147483648 programs"):
        check_grid(MAX_GRID + 1, "naive")
