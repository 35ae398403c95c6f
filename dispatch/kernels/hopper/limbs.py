"""Activations as one or two int8 limbs, so that int8 weights are multiplied as they are stored.

One limb is int8_w8a8: ``q = round(v / s)``, ``|q| <= 127``, ``s = max|v| / 127`` over the row (or over a
group of its columns). Two limbs are int8_w8a16: ``q = 128 hi + lo`` with ``|q| <= 16256 = 127 * 128``, so hi
and lo are int8 and the product with int8 weights is ``128 (w . hi) + (w . lo)``, exact in int32 up to the
final sum in float32. The weights are then never converted, which is what bounds a kernel that widens them.

Error of two limbs: each element is off by at most ``s / 2`` with ``s = max|v| / 16256``, so the error of a
row of K elements relative to its norm is at most ``sqrt(K) / (2 * 16256)``, and with uniformly distributed
errors ``sqrt(K / 12) / 16256``, both where one outlier has all of the norm: 1.4e-3 and 8e-4 for K = 2048. A
Gaussian row is off by 6e-5. Rounding the same row to bfloat16 costs 1.7e-3. The inverse of the scale must be
finite: rows whose largest magnitude is under 5e-35 (two limbs) or 4e-37 (one) are not represented.

A row with a NaN or an infinity gets the scale NaN, and so do its results.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.kernels.tile import widen


@triton.jit
def limb_scale(largest, finite, LIMBS: tl.constexpr):
    """Scale and its inverse from the largest magnitude; NaN and 0 where ``finite`` is 0."""
    steps: tl.constexpr = 127.0 if LIMBS == 1 else 16256.0
    usable = (largest > 0) & (finite > 0)
    scale = tl.where(finite > 0, largest / steps, float("nan"))
    inverse = tl.where(usable, steps / tl.where(usable, largest, 1.0), 0.0)
    return scale, inverse


@triton.jit
def to_limbs(value, inverse, LIMBS: tl.constexpr):
    """float32 ``value * inverse`` as int8 limbs (hi, lo), rounded half away from zero; lo is 0 with one limb."""
    # A value that is not finite belongs to a row whose inverse is 0: keep it out of the conversion.
    scaled = tl.where(inverse == 0, 0.0, value * inverse)
    whole = (scaled + tl.where(scaled >= 0, 0.5, -0.5)).to(tl.int32)
    if LIMBS == 1:
        high = tl.minimum(tl.maximum(whole, -127), 127)
        low = high * 0
    else:
        whole = tl.minimum(tl.maximum(whole, -16256), 16256)
        high = (whole + 64) >> 7
        low = whole - high * 128
    return high.to(tl.int8), low.to(tl.int8)


@triton.jit
def magnitude(value):
    """|value| in float32 and whether it is finite (int32), elementwise; a comparison with NaN is false."""
    size = tl.abs(value)
    finite = (size < float("inf")).to(tl.int32)
    return tl.where(finite > 0, size, 0.0), finite


@triton.jit
def row_to_limbs(
    value_ptrs, limbs_ptrs, limb_stride, scale_ptr, inside, LIMBS: tl.constexpr, INTERPRET: tl.constexpr
):
    """Read a whole row and store its limbs, ``limb_stride`` elements apart, and its scale."""
    value = tl.load(value_ptrs, mask=inside, other=0.0)
    value = widen(value, INTERPRET).to(tl.float32)
    size, finite = magnitude(value)
    scale, inverse = limb_scale(tl.max(size, 0), tl.min(finite, 0), LIMBS)
    high, low = to_limbs(value, inverse, LIMBS)
    tl.store(limbs_ptrs, high, mask=inside)
    if LIMBS == 2:  # noqa: PLR2004
        tl.store(limbs_ptrs + limb_stride, low, mask=inside)
    tl.store(scale_ptr, scale)


@triton.jit
def dot4(left, right, INTERPRET: tl.constexpr):
    """int8 products, summed over groups of four neighbours on the last axis.

    int32 of the operands' shape: the group's sum stands at its first element and 0 at the other three, so a
    sum over the axis is the dot product. One instruction (dp4a) a group.
    """
    if INTERPRET:
        return left.to(tl.int32) * right.to(tl.int32)
    return tl.inline_asm_elementwise(
        "dp4a.s32.s32 $0, $4, $5, 0; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0;",
        "=r,=r,=r,=r,r,r",
        [left, right],
        dtype=tl.int32,
        is_pure=True,
        pack=4,
    )
