"""int8_w8a8 step by step in torch: the integer products are exact, so only 16-bit rounding can differ."""

from __future__ import annotations

import pytest
import torch

from dispatch import quantize_per_token
from tests.dispatch.inputs import Inputs, make


def step_by_step(inputs: Inputs) -> torch.Tensor:
    """Compute int8_w8a8 with every rounding where the kernels have it."""
    x, x_scale = quantize_per_token(inputs.x)
    total = torch.zeros(inputs.x.shape, dtype=torch.float32)
    for choice in range(inputs.topk_ids.shape[1]):
        down = torch.empty(inputs.x.shape, dtype=torch.bfloat16)
        for token, expert in enumerate(inputs.topk_ids[:, choice].tolist()):
            product = (inputs.w13[expert].long() @ x[token].long()).float()
            gate, up = (product * inputs.w13_scale[expert] * x_scale[token]).chunk(2)
            activated = (torch.nn.functional.silu(gate) * up).to(torch.bfloat16)
            values, scale = quantize_per_token(activated)
            row = (inputs.w2[expert].long() @ values.long()).float() * inputs.w2_scale[expert]
            down[token] = (row * (inputs.topk_weights[token, choice] * scale)).to(torch.bfloat16)
        total += down.float()
    return total.to(torch.bfloat16)


@pytest.mark.parametrize("kernel", ["naive", "persistent"])
def test_int8_products_are_exact(kernel, device):
    inputs = make(5, 1200, 70, 4, 2, "int8_w8a8", device=torch.device("cpu"))
    expected = step_by_step(inputs)
    moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in vars(inputs).items()}
    result = Inputs(**moved).run(kernel).cpu()
    # One unit in the last place of a 16-bit value, here and there one step of the second quantisation.
    error = (result.float() - expected.float()).norm() / expected.float().norm()
    assert error < 1e-3, f"{error:.2e}"


def test_a_sum_that_passes_2_to_the_24_keeps_its_last_digit(device):
    """The gate adds up to 5, by way of 2047 x 127 x 127, where float32 holds even numbers only."""
    hidden, intermediate, odd = 4096, 16, 2048
    inputs = make(1, hidden, intermediate, 1, 1, "int8_w8a8", device=device)
    inputs.x.fill_(127.0)
    inputs.x[0, odd] = 1.0
    gate, up = inputs.w13[0].chunk(2)
    gate[:, :odd] = 127
    gate[:, odd] = 5
    gate[:, odd + 1 :] = -127
    gate[:, 0] = 0
    up.fill_(0)
    up[:, odd] = 1
    inputs.w13_scale.fill_(1.0)
    inputs.w2.fill_(0)
    inputs.w2[0, :, 0] = 1
    inputs.w2_scale.fill_(1.0)
    inputs.topk_weights.fill_(1.0)
    expected = torch.nn.functional.silu(torch.tensor(5.0)).expand(hidden).to(device)
    torch.testing.assert_close(inputs.run()[0].float(), expected, rtol=2**-7, atol=0)
