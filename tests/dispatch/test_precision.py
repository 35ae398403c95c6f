"""Which precision a call has."""

from __future__ import annotations

import pytest
import torch

from dispatch import InvalidInputError, Precision
from dispatch.precision import resolve_precision

BF16, FP16, INT8, FP32 = torch.bfloat16, torch.float16, torch.int8, torch.float32


def test_types_say_it_where_they_can():
    assert resolve_precision(None, BF16, BF16) is Precision.BF16
    assert resolve_precision(None, FP16, FP16) is Precision.FP16


@pytest.mark.parametrize("activations", [BF16, FP16])
@pytest.mark.parametrize("name", ["int8_w8a16", "int8_w8a8"])
def test_int8_weights_run_with_either_activation(name, activations):
    assert resolve_precision(name, activations, INT8) is Precision(name)


@pytest.mark.parametrize(
    ("name", "activations", "weights", "sentence"),
    [
        (None, BF16, INT8, "name one"),
        (None, BF16, FP16, "w13 is float16 and x is bfloat16"),
        (None, FP32, FP32, "x is float32; the kernels take bfloat16 or float16"),
        ("bf16", FP16, FP16, "x is float16 and w13 is float16; it needs bf16 in both"),
        ("bf16", BF16, INT8, "w13 is int8; it needs bf16 in both"),
        ("int8_w8a8", BF16, BF16, "w13 is bfloat16; it needs int8 weights"),
        ("fp8", BF16, BF16, "'fp8' is unknown; known are bf16, fp16, int8_w8a16, int8_w8a8"),
    ],
)
def test_contradictions_are_refused(name, activations, weights, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        resolve_precision(name, activations, weights)
