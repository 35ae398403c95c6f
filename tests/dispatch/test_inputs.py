"""Every malformed argument has its sentence, and the sentence names it."""

from __future__ import annotations

import pytest
import torch

from dispatch import DispatchError, InvalidInputError
from tests.dispatch.inputs import make


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Make a tensor that only has a shape to speak of."""
    return torch.zeros(shape, dtype=dtype)


BF16 = {
    "x of three dimensions": ({"x": zeros(1, 3, 8)}, r"x has shape \[1, 3, 8\]; it must have 2 dimensions"),
    "w2 of two": ({"w2": zeros(8, 4)}, "w2 has shape .* it must have 3 dimensions"),
    "another H": ({"x": zeros(3, 9)}, "w13 has 8 columns and x has 9; both are H"),
    "odd rows": ({"w13": zeros(5, 7, 8)}, "w13 has 7 rows an expert; it must be 2 I"),
    "another I": ({"w2": zeros(5, 8, 5)}, r"w2 has shape \[5, 8, 5\]; .* it must be \[5, 8, 4\]"),
    "another E": ({"w2": zeros(6, 8, 4)}, r"it must be \[5, 8, 4\]"),
    "no experts": ({"w13": zeros(0, 8, 8), "w2": zeros(0, 8, 4)}, "must not be zero"),
    "no hidden": ({"x": zeros(3, 0), "w13": zeros(5, 8, 0), "w2": zeros(5, 0, 4)}, "must not be zero"),
    "ids of other tokens": ({"topk_ids": zeros(4, 2, dtype=torch.int32)}, r"topk_ids .* must be \[3, k\]"),
    "no choices": ({"topk_ids": zeros(3, 0, dtype=torch.int32)}, "with k over 0"),
    "router weights": ({"topk_weights": zeros(3, 1, dtype=torch.float32)}, "they must agree"),
    "router type": ({"topk_weights": zeros(3, 2)}, "topk_weights is torch.bfloat16; it must be float32"),
    "id type": (
        {"topk_ids": zeros(3, 2, dtype=torch.int16)},
        "topk_ids is torch.int16; it must be int32 or int64",
    ),
    "mixed weights": ({"w2": zeros(5, 8, 4, dtype=torch.float16)}, "both must have one type"),
    "scale without int8": ({"w13_scale": zeros(5, 8, dtype=torch.float32)}, "w13_scale is given"),
    "other device": ({"w2": torch.empty(5, 8, 4, dtype=torch.bfloat16, device="meta")}, "w2 is on meta"),
}
INT8 = {
    "no scale": ({"w2_scale": None}, "w2_scale is missing"),
    "scale a tensor": (
        {"w13_scale": torch.ones(5)},
        r"w13_scale has shape \[5\]; it must be \[5, 8\] or \[5, 8, 1\]",
    ),
    "scale swapped": ({"w13_scale": torch.ones(8, 5)}, r"it must be \[5, 8\]"),
    "scale type": ({"w2_scale": torch.ones(5, 8).half()}, "w2_scale is torch.float16; it must be float32"),
}


@pytest.mark.parametrize("name", [*BF16, *INT8])
def test_a_sentence_for_each(name):
    precision = "bf16" if name in BF16 else "int8_w8a16"
    changes, sentence = {**BF16, **INT8}[name]
    inputs = make(3, 8, 4, 5, 2, precision, device=torch.device("cpu")).with_(**changes)
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        inputs.run()
    assert isinstance(caught.value, (DispatchError, ValueError))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        (zeros(3, 9), "it must be like x"),
        (zeros(3, 8, dtype=torch.float16), "it must be like x"),
        (zeros(8, 3).T, "its last axis must be dense"),
        (zeros(1, 8).expand(3, 8), "its rows must not overlap"),
    ],
)
def test_an_output_that_does_not_fit_is_refused(out, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make(3, 8, 4, 5, 2, device=torch.device("cpu")).run(out=out)
