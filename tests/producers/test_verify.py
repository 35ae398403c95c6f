"""How outputs are judged: each net catches what the others miss, and lets rounding through."""

from __future__ import annotations

import math

import pytest
import torch

from producers.failures import Failure
from producers.verify import (
    MAX_MISMATCH_SHARE,
    Unchanged,
    check_form,
    checksum,
    judge,
    poison,
    poison_bytes,
    repeatability,
)

TOLERANCE = 0.01
CPU = torch.device("cpu")


@pytest.fixture
def reference() -> torch.Tensor:
    return torch.randn(64, 256, generator=torch.Generator().manual_seed(0))


def code(output: torch.Tensor, reference: torch.Tensor) -> str | None:
    failure = judge(output, reference, TOLERANCE).failure(TOLERANCE)
    return None if failure is None else failure.reason_code


def test_numbers_of_a_known_difference() -> None:
    reference = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    output = torch.tensor([[3.0, 4.0], [0.0, 0.5]])
    found = judge(output, reference, TOLERANCE)
    assert found.relative_error == pytest.approx(0.1)
    assert found.max_abs_error == pytest.approx(0.5)
    assert found.mismatch_share == 0.25
    assert found.worst_row == pytest.approx(0.5 / (5 / math.sqrt(2)))


def test_rounding_passes(reference: torch.Tensor) -> None:
    assert code(reference.bfloat16(), reference) is None
    assert 1e-3 < judge(reference.bfloat16(), reference, TOLERANCE).relative_error < 3e-3


def test_scaled_output_is_wrong(reference: torch.Tensor) -> None:
    assert code(reference * 1.009, reference) is None
    assert code(reference * 1.011, reference) == "wrong-output"


def test_one_wrong_row_among_many_is_wrong() -> None:
    reference = torch.randn(40_000, 8, generator=torch.Generator().manual_seed(0))
    output = reference.clone()
    output[17] = 0
    assert judge(output, reference, TOLERANCE).relative_error < TOLERANCE
    assert code(output, reference) == "wrong-output"


def test_one_wrong_column_is_wrong() -> None:
    reference = torch.randn(64, 900, generator=torch.Generator().manual_seed(0))
    output = reference.clone()
    output[:, -1] *= 0.8
    found = judge(output, reference, TOLERANCE)
    assert found.relative_error < TOLERANCE
    assert found.worst_row < 4 * TOLERANCE
    assert found.mismatch_share < MAX_MISMATCH_SHARE
    output[:, -1] = reference[:, -1] + 0.2
    assert judge(output, reference, TOLERANCE).relative_error < TOLERANCE
    assert code(output, reference) == "wrong-output"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_infinite_is_within_tolerance(reference: torch.Tensor, value: float) -> None:
    output = reference.clone()
    output[5, 5] = value
    found = judge(output, reference, TOLERANCE)
    assert code(output, reference) == "nan-output"
    assert set(found.columns().values()) == {None}


def test_zero_reference_wants_zero() -> None:
    zero = torch.zeros(2, 4)
    assert code(zero, zero) is None
    assert code(zero + 1, zero) == "wrong-output"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (None, "NoneType"),
        (torch.zeros(4, 2, dtype=torch.bfloat16), r"\[4, 2\]"),
        (torch.zeros(2, 4), "float32"),
    ],
)
def test_form(output: object, said: str) -> None:
    with pytest.raises(Failure, match=said):
        check_form(output, torch.zeros(2, 4), torch.bfloat16)


def test_repeatability(reference: torch.Tensor) -> None:
    output = reference.bfloat16()
    close, far = output.clone(), output.clone()
    close[0, 0] += close[0, 0] * 2**-7
    far *= 1.0 + 2**-6
    assert repeatability([output, output.clone(), output.clone()], reference, TOLERANCE) == "bitwise"
    assert repeatability([output, output.clone(), close], reference, TOLERANCE) == "tolerance"
    assert repeatability([output, far, output.clone()], reference, TOLERANCE) == "no"


def test_negative_zero_is_another_bit_pattern(reference: torch.Tensor) -> None:
    zero = torch.zeros(2, 2)
    assert repeatability([zero, -zero], reference, TOLERANCE) == "tolerance"


def test_unchanged_names_what_was_written() -> None:
    tensors = {"x": torch.arange(10, dtype=torch.float16), "w": torch.arange(9, dtype=torch.int8)}
    watch = Unchanged(tensors)
    watch.check()
    tensors["w"][[0, 8]] = tensors["w"][[8, 0]]
    with pytest.raises(Failure, match=r"wrote into w$") as failure:
        watch.check()
    assert failure.value.reason_code == "input-modified"


def test_checksum_is_the_weighted_sum_of_words() -> None:
    assert checksum(torch.tensor([5, -7, 11], dtype=torch.int32)) == 5 - 14 + 33
    assert checksum(torch.tensor([1, 0, 0, 0, 9], dtype=torch.int8)) == 1 + 2 * 9
    assert checksum(torch.empty(0)) == 0


def test_poisoned_memory_comes_back() -> None:
    poison(poison_bytes(0, CPU), CPU)
    seen = torch.cat([torch.empty(1 << n, dtype=torch.float32) for n in range(6, 14) for _ in range(8)])
    assert seen.isnan().any()
