"""Symmetric int8 quantisation in torch: weights per output channel, activations per row.

    scale = max|row| / 127        value = round_half_away(row / scale)        row ~ value * scale

An all-zero row has scale 0. A row that holds NaN or infinity has scale NaN, so that it cannot pass for
a finite one after dequantisation. :mod:`dispatch.kernels.quantize` computes bitwise the same.
"""

from __future__ import annotations

import torch

from dispatch.errors import InvalidInputError

INT8_MAX = 127.0


def quantize_per_token(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise each row of the last axis.

    Args:
        x: [..., K], floating point.

    Returns:
        int8 values [..., K] and float32 scales [...].

    Raises:
        InvalidInputError: x is no floating-point tensor, or has no axis.
    """
    _check(x, "x", 1)
    wide = x.float()
    if wide.shape[-1] == 0:
        return wide.to(torch.int8), wide.new_zeros(wide.shape[:-1])
    scale = wide.abs().amax(dim=-1) / INT8_MAX
    scale = torch.where(torch.isfinite(scale), scale, torch.full_like(scale, torch.nan))
    # Where the scale is 0 or NaN the quotient is NaN: nothing to store but 0.
    quotient = (wide / scale[..., None]).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    rounded = torch.trunc(quotient + torch.copysign(torch.full_like(quotient, 0.5), quotient))
    return rounded.clamp(-INT8_MAX, INT8_MAX).to(torch.int8), scale


def quantize_per_channel(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise weights with one scale per output channel.

    Args:
        w: [E, N, K], floating point; a channel is a row of K.

    Returns:
        int8 values [E, N, K] and float32 scales [E, N].

    Raises:
        InvalidInputError: w is no floating-point tensor, or has fewer than two axes.
    """
    _check(w, "w", 2)
    # One expert at a time: the float32 copy of all of them can be larger than the weights' memory.
    values = torch.empty_like(w, dtype=torch.int8)
    scales = torch.empty(w.shape[:-1], dtype=torch.float32, device=w.device)
    for expert in range(w.shape[0]):
        values[expert], scales[expert] = quantize_per_token(w[expert])
    return values, scales


def _check(tensor: object, name: str, axes: int) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInputError(f"{name} is {type(tensor).__name__}; it must be a torch tensor.")
    if not tensor.is_floating_point():
        raise InvalidInputError(f"{name} is {tensor.dtype}; quantisation takes floating point.")
    if tensor.ndim < axes:
        raise InvalidInputError(f"{name} has {tensor.ndim} axes; it must have at least {axes}.")


def expert_matrix(
    w: torch.Tensor, scale: torch.Tensor | None, expert: int, dtype: torch.dtype
) -> torch.Tensor:
    """One expert's weights, dequantised if they have scales, in ``dtype``.

    Args:
        w: [E, N, K].
        scale: [E, N] or [E, N, 1] float32, or None.
        expert: which.
        dtype: of the result; the product with the scale is computed in at least float32.

    Returns:
        [N, K].
    """
    if scale is None:
        return w[expert].to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    return (w[expert].to(wide) * scale[expert].reshape(-1, 1).to(wide)).to(dtype)
