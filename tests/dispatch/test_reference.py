"""The reference and the eager loop against the formula written out for single numbers."""

from __future__ import annotations

import math

import pytest
import torch

from dispatch import fused_moe_eager, fused_moe_reference
from tests.dispatch.inputs import make

CPU = torch.device("cpu")


def by_hand(inputs) -> torch.Tensor:
    """Compute in Python floats, one number after the other."""
    x, w13, w2 = (t.double().tolist() for t in (inputs.x, inputs.w13, inputs.w2))
    if inputs.w13_scale is not None:
        w13 = (inputs.w13.double() * inputs.w13_scale.double()[..., None]).tolist()
        w2 = (inputs.w2.double() * inputs.w2_scale.double()[..., None]).tolist()
    result = [[0.0] * len(row) for row in x]
    for token, row in enumerate(x):
        pairs = zip(inputs.topk_ids[token].tolist(), inputs.topk_weights[token].tolist(), strict=True)
        for expert, weight in pairs:
            if not 0 <= expert < len(w13):
                continue
            sums = [math.fsum(a * b for a, b in zip(w, row, strict=True)) for w in w13[expert]]
            gate, up = sums[: len(sums) // 2], sums[len(sums) // 2 :]
            hidden = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)]
            for channel, w in enumerate(w2[expert]):
                result[token][channel] += weight * math.fsum(a * b for a, b in zip(w, hidden, strict=True))
    return torch.tensor(result, dtype=torch.float64)


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16"])
def test_the_reference_is_the_formula(precision):
    ids = torch.tensor([[0, 1], [2, 2], [-1, 3], [1, 0]], dtype=torch.int32)
    inputs = make(4, 6, 5, 3, 2, precision, device=CPU, ids=ids)
    expected = by_hand(inputs)
    torch.testing.assert_close(inputs.reference(), expected, rtol=1e-12, atol=1e-13)
    narrow = fused_moe_reference(*inputs.operands, **inputs.scales)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8_w8a16"])
def test_the_eager_loop_agrees_within_its_type_s_rounding(precision):
    inputs = make(30, 64, 48, 7, 3, precision, device=CPU)
    result = fused_moe_eager(*inputs.operands, **inputs.scales)
    expected = inputs.reference()
    assert result.dtype == inputs.x.dtype
    error = (result.double() - expected).norm() / expected.norm()
    assert error < (2e-3 if precision == "fp16" else 1.2e-2)


def test_no_tokens():
    inputs = make(0, 6, 5, 3, 2, device=CPU)
    assert fused_moe_eager(*inputs.operands).shape == (0, 6)
    assert inputs.reference().shape == (0, 6)
