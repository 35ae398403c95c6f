"""Seeded inputs for the kernels, and how close a result must be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from dispatch import Precision, fused_moe, fused_moe_reference, quantize_per_token

# Relative Frobenius error against the float64 reference of the weights as stored. 16-bit paths round three
# times (activated row, share of an expert, result), by at most 2^-9 (bf16) or 2^-12 (fp16) of a value each.
# int8_w8a8 rounds activations twice more, to steps of max|row| / 127; the largest of some hundred normal
# values is 3 to 3.5 deviations, so a rounding adds 3.3 / 127 / sqrt(12) = 0.75% of the row's norm, and the
# first one enters both gate and up.
BOUNDS = {
    Precision.BF16: 3 * 2**-9,
    Precision.FP16: 3 * 2**-12,
    Precision.INT8_W8A16: 3 * 2**-9,
    Precision.INT8_W8A8: 0.03,
}


@dataclass(frozen=True)
class Inputs:
    """The arguments of a call."""

    x: torch.Tensor
    w13: torch.Tensor
    w2: torch.Tensor
    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    precision: Precision = Precision.BF16
    w13_scale: torch.Tensor | None = None
    w2_scale: torch.Tensor | None = None

    @property
    def operands(self) -> tuple[torch.Tensor, ...]:
        """The positional arguments."""
        return (self.x, self.w13, self.w2, self.topk_weights, self.topk_ids)

    @property
    def scales(self) -> dict[str, Any]:
        """The keyword arguments that the reference takes too."""
        return {"w13_scale": self.w13_scale, "w2_scale": self.w2_scale}

    def run(self, kernel: str = "naive", **options: Any) -> torch.Tensor:
        """Run the kernels."""
        return fused_moe(*self.operands, kernel=kernel, precision=self.precision, **self.scales, **options)

    def reference(self) -> torch.Tensor:
        """Compute the definition in float64."""
        return fused_moe_reference(*self.operands, **self.scales, dtype=torch.float64)

    def with_(self, **changes: Any) -> Inputs:
        """Return a copy with some arguments changed."""
        return replace(self, **changes)

    def check(self, result: torch.Tensor) -> None:
        """Assert that ``result`` is what the reference says, within the precision's bound."""
        expected = self.reference()
        assert result.shape == self.x.shape
        assert result.dtype == self.x.dtype
        assert torch.isfinite(result).all()
        error = (result.double() - expected).norm()
        bound = BOUNDS[self.precision]
        assert error <= bound * expected.norm(), f"relative error {error / expected.norm():.2e}"
        # No single element may hide in the norm.
        scale = expected.square().mean().sqrt()
        torch.testing.assert_close(
            result.double(), expected, rtol=4 * bound, atol=8 * bound * float(scale), check_dtype=False
        )


def make(
    tokens: int,
    hidden: int,
    intermediate: int,
    experts: int,
    top_k: int,
    precision: str = "bf16",
    *,
    device: torch.device,
    ids: torch.Tensor | None = None,
    seed: int = 0,
) -> Inputs:
    """Draw inputs; ids are distinct within a row unless given."""
    named = Precision(precision)
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.float16 if named is Precision.FP16 else torch.bfloat16
    x = torch.randn(tokens, hidden, generator=generator).to(dtype)
    w13, w13_scale = _weights((experts, 2 * intermediate, hidden), named, dtype, generator)
    w2, w2_scale = _weights((experts, hidden, intermediate), named, dtype, generator)
    drawn = torch.rand(tokens, experts, generator=generator).argsort(dim=-1)[:, :top_k].to(torch.int32)
    router = torch.rand(tokens, top_k, generator=generator) + 0.1
    tensors = (x, w13, w2, router, drawn if ids is None else ids, w13_scale, w2_scale)
    x, w13, w2, router, chosen, *scales = (None if t is None else t.to(device) for t in tensors)
    return Inputs(x, w13, w2, router, chosen, named, *scales)


# Weights of more elements than this share memory: the matrix of an expert is a window of one buffer, shifted
# by SHIFT rows. Experts differ, memory stays small, and strides are not those of a contiguous tensor.
_MOST_ELEMENTS = 2**24
_SHIFT = 3


def _weights(
    shape: tuple[int, int, int], precision: Precision, dtype: torch.dtype, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor | None]:
    experts, rows, columns = shape
    shared = experts * rows * columns > _MOST_ELEMENTS
    drawn = rows + _SHIFT * (experts - 1) if shared else experts * rows
    wide = torch.randn(drawn, columns, generator=generator) * columns**-0.5
    values, scale = quantize_per_token(wide) if precision.int8_weights else (wide.to(dtype), None)
    step = _SHIFT if shared else rows
    matrix = values.as_strided(shape, (step * columns, columns, 1))
    return matrix, None if scale is None else scale.as_strided((experts, rows), (step, 1))
