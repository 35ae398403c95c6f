"""Symmetric int8 quantisation."""

from __future__ import annotations

import pytest
import torch

from dispatch import InvalidInputError, quantize_per_channel, quantize_per_token
from dispatch.quantize import expert_matrix


def test_values_scales_and_rounding_away_from_zero():
    x = torch.tensor([[127.0, 0.5, -0.5, 1.49, -126.5], [0.0, 0.0, 0.0, 0.0, 0.0]])
    values, scales = quantize_per_token(x)
    assert values.tolist() == [[127, 1, -1, 1, -127], [0, 0, 0, 0, 0]]
    assert (values.dtype, scales.dtype) == (torch.int8, torch.float32)
    assert scales.tolist() == [1.0, 0.0]


def test_the_error_is_at_most_half_a_step_and_the_largest_is_exact():
    x = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))
    values, scales = quantize_per_token(x)
    error = (values * scales[:, None] - x).abs()
    assert (error <= 0.5001 * scales[:, None]).all()
    assert (values.abs().amax(dim=1) == 127).all()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "is NoneType; it must be a torch tensor"),
        (torch.ones(4, 8, dtype=torch.int32), r"is torch\.int32; quantisation takes floating point"),
        (torch.tensor(1.0), "has 0 axes; it must have at least"),
    ],
    ids=["None", "integers", "a number"],
)
@pytest.mark.parametrize("quantise", [quantize_per_token, quantize_per_channel])
def test_what_cannot_be_quantised_is_refused(quantise, given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        quantise(given)


def test_rows_that_are_not_finite_have_no_scale():
    values, scales = quantize_per_token(torch.tensor([[1.0, torch.nan], [torch.inf, 1.0], [1.0, 2.0]]))
    assert torch.isnan(scales).tolist() == [True, True, False]
    assert values[:2].abs().sum() == 0


def test_channels_are_rows_of_each_expert():
    w = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    values, scales = quantize_per_channel(w)
    assert (values.shape, scales.shape) == ((3, 4, 16), (3, 4))
    for expert in range(3):
        one, scale = quantize_per_token(w[expert])
        assert torch.equal(values[expert], one)
        assert torch.equal(scales[expert], scale)
    matrix = expert_matrix(values, scales[..., None], 1, torch.float64)
    torch.testing.assert_close(matrix, values[1].double() * scales[1, :, None].double())


def test_no_columns_and_no_rows():
    assert quantize_per_token(torch.empty(2, 0))[1].tolist() == [0.0, 0.0]
    assert quantize_per_token(torch.empty(0, 4))[0].shape == (0, 4)
