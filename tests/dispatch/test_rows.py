"""Quantisation on the device against the torch one, bit for bit; the sum over choices."""

from __future__ import annotations

import pytest
import torch

from dispatch.config import Problem
from dispatch.device import device_facts
from dispatch.kernels.rows import combine, quantize_rows
from dispatch.precision import Precision
from dispatch.quantize import quantize_per_token


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [1, 77, 5000])
def test_rows_are_quantised_bitwise_like_in_torch(columns, dtype, device):
    """5000 columns take two steps; the special rows are where a shortcut would differ."""
    generator = torch.Generator().manual_seed(columns)
    values = torch.randn(9, columns, generator=generator).to(dtype)
    values[1] = 0
    values[2, 0] = torch.nan
    values[3, -1] = torch.inf
    values[4, 0] = -torch.inf
    values[5] *= torch.finfo(dtype).tiny
    values[6] = torch.where(values[6] < 0, -torch.ones(()), torch.ones(())) * 3.0
    values[7, : columns // 2] = -0.0
    values = values.to(device)
    quantized, scales = quantize_rows(values, device_facts(device).interpreted)
    expected, expected_scales = quantize_per_token(values)
    assert torch.equal(quantized, expected)
    torch.testing.assert_close(scales, expected_scales, rtol=0, atol=0, equal_nan=True)
    assert torch.isnan(scales[2:5]).all()


def test_bfloat16_ties_round_to_even_and_the_sum_keeps_the_order_of_choices(device):
    """1 + 2^-8 lies between two bfloat16: the even one is below, and with 3 2^-8 above."""
    down = torch.tensor([[1.0, 1.0], [2**-8, 3 * 2**-8]], dtype=torch.bfloat16, device=device)
    ids = torch.tensor([[0, 0]], dtype=torch.int32, device=device)
    out = torch.empty(1, 2, dtype=torch.bfloat16, device=device)
    facts = device_facts(device)
    combine(down, ids, out, Problem(1, 2, 1, 2, 4, Precision.BF16, facts), facts.interpreted)
    assert out.tolist() == [[1.0, 1.0 + 4 * 2**-8]]


def test_the_sum_skips_choices_without_a_valid_id_and_many_rows_and_columns_are_covered(device):
    tokens, top_k, hidden = 70, 3, 1300
    generator = torch.Generator().manual_seed(0)
    down = torch.randn(tokens * top_k, hidden, generator=generator)
    ids = torch.randint(-1, 6, (tokens, top_k), generator=generator, dtype=torch.int32)
    used = (ids >= 0) & (ids < 5)
    expected = (down.reshape(tokens, top_k, hidden) * used[..., None]).sum(dim=1)
    down[~used.flatten()] = torch.nan
    out = torch.full((tokens, hidden), torch.nan, device=device)
    facts = device_facts(device)
    problem = Problem(tokens, top_k, 5, hidden, 4, Precision.BF16, facts)
    combine(down.to(device), ids.to(device), out, problem, facts.interpreted)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-6, atol=1e-6)
