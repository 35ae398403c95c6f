"""One step of a matrix product, for ``stream`` and ``tiled``."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.kernels.tile import widen


@triton.jit
def product(left, right, total, INTERPRET: tl.constexpr):
    """``total`` + left [R, K] @ right [K, C]; exact for int8 under the interpreter up to K = 1040."""
    if INTERPRET:
        total += tl.dot(widen(left, True), widen(right, True), input_precision="ieee").to(total.dtype)
    else:
        total = tl.dot(left, right, total, out_dtype=total.dtype)
    return total
