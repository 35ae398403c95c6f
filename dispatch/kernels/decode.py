"""The kernels of a decode step that are not the experts'.

Each takes weights no row of which is needed twice, so a program owns whole rows and all their bytes are in
flight at once; the vector that they meet is small, and every program makes what it needs of it (a norm, a
sum) for itself instead of waiting for a launch that would.

On compute capability 9.0 launches overlap (programmatic dependent launch): a program asks for its weights,
then waits for its predecessor, then reads what that computed. Rounding follows transformers' bfloat16 layers
step by step, so that both choose the same tokens but for the order of sums.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.kernels.hopper.launch import signal, wait
from dispatch.kernels.hopper.pointwise import silu
from dispatch.kernels.tile import narrow, widen


@triton.jit
def rounded(value, dtype: tl.constexpr, INTERPRET: tl.constexpr):
    """float32 ``value`` rounded to ``dtype``, in float32."""
    return widen(narrow(value, dtype, INTERPRET), INTERPRET)


@triton.jit
def linear_kernel(
    x_ptr,  # [K]
    added_ptr,  # [K], or None: x + added is what is read
    sum_ptr,  # [K] out, with added: x + added
    norm_ptr,  # [K] weight of an RMS norm of what is read, or None
    normed_ptr,  # [K] out, or None: the norm's result
    w_ptr,  # [N, K], or [2 N, K] with GATED: gate rows, then up rows
    residual_ptr,  # [N], or None: added to the product
    out_ptr,  # [N]
    columns,  # N
    epsilon,
    SIZE: tl.constexpr,  # K
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GATED: tl.constexpr,
    SERIAL: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """``out = residual + w @ norm(x + added)``, or ``silu(gate) * up`` of both products; grid (N / BLOCK_N,).

    With a norm BLOCK_K covers K. The outputs beside ``out`` are written by the first program.
    """
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    signal(SERIAL)
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    # Rows past the end read row 0 and are not stored.
    w_ptrs = w_ptr + tl.where(rows < columns, rows, 0).to(tl.int64)[:, None] * SIZE + steps[None, :]
    up_ptrs = w_ptrs + columns.to(tl.int64) * SIZE
    inside = steps < SIZE
    weights = tl.load(w_ptrs, mask=inside[None, :], other=0.0)
    ups = weights
    if GATED:
        ups = tl.load(up_ptrs, mask=inside[None, :], other=0.0)
    wait(SERIAL)
    total = tl.zeros((BLOCK_N,), tl.float32)
    up = tl.zeros((BLOCK_N,), tl.float32)
    for k in tl.static_range(0, SIZE, BLOCK_K):
        inside = k + steps < SIZE
        x = widen(tl.load(x_ptr + k + steps, mask=inside, other=0.0), INTERPRET)
        if added_ptr is not None:
            x += widen(tl.load(added_ptr + k + steps, mask=inside, other=0.0), INTERPRET)
            x = rounded(x, dtype, INTERPRET)
            if tl.program_id(0) == 0:
                tl.store(sum_ptr + k + steps, narrow(x, dtype, INTERPRET), mask=inside)
        if norm_ptr is not None:
            scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / SIZE + epsilon)
            x = rounded(x * scale, dtype, INTERPRET)
            x *= widen(tl.load(norm_ptr + steps, mask=inside, other=0.0), INTERPRET)
            x = rounded(x, dtype, INTERPRET)
            if normed_ptr is not None and tl.program_id(0) == 0:
                tl.store(normed_ptr + steps, narrow(x, dtype, INTERPRET), mask=inside)
        if k > 0:
            weights = tl.load(w_ptrs + k, mask=inside[None, :], other=0.0)
            if GATED:
                ups = tl.load(up_ptrs + k, mask=inside[None, :], other=0.0)
        total += tl.sum(widen(weights, INTERPRET) * x[None, :], 1)
        if GATED:
            up += tl.sum(widen(ups, INTERPRET) * x[None, :], 1)
    if GATED:
        activated = rounded(silu(rounded(total, dtype, INTERPRET)), dtype, INTERPRET)
        total = activated * rounded(up, dtype, INTERPRET)
    if residual_ptr is not None:
        total = rounded(total, dtype, INTERPRET)
        total += widen(tl.load(residual_ptr + rows, mask=rows < columns, other=0.0), INTERPRET)
    tl.store(out_ptr + rows, narrow(total, dtype, INTERPRET), mask=rows < columns)


@triton.jit
def rotated(low, high, cos, sin, dtype: tl.constexpr, INTERPRET: tl.constexpr):
    """Both halves of a head after rotary embedding, rounded after each operation."""
    first = rounded(low * cos, dtype, INTERPRET) - rounded(high * sin, dtype, INTERPRET)
    second = rounded(high * cos, dtype, INTERPRET) + rounded(low * sin, dtype, INTERPRET)
    return rounded(first, dtype, INTERPRET), rounded(second, dtype, INTERPRET)


@triton.jit
def attend_kernel(
    qkv_ptr,  # [(heads + 2 key heads) * D]
    cos_ptr,  # [length, D]
    sin_ptr,
    keys_ptr,  # [key heads, length, D]; a row is written
    values_ptr,
    position_ptr,  # int64: the token's, and how many came before it
    out_ptr,  # [heads * D]
    length,
    scale,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,  # D / 2, a power of two
    BLOCK_T: tl.constexpr,
    SERIAL: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Rotary embedding, the cache's new row, and attention of one head; grid (heads,).

    The token's own key and value come from registers, so no program waits for the row that another writes.
    """
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    SIZE: tl.constexpr = 2 * HALF
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    signal(SERIAL)
    head = tl.program_id(0)
    key_head = head // GROUP
    half = tl.arange(0, HALF)
    whole = tl.arange(0, SIZE)
    wait(SERIAL)
    position = tl.load(position_ptr).to(tl.int32)
    cos = widen(tl.load(cos_ptr + position * SIZE + half), INTERPRET)
    sin = widen(tl.load(sin_ptr + position * SIZE + half), INTERPRET)
    q_ptrs = qkv_ptr + head * SIZE + half
    low, high = tl.load(q_ptrs), tl.load(q_ptrs + HALF)
    q_low, q_high = rotated(widen(low, INTERPRET), widen(high, INTERPRET), cos, sin, dtype, INTERPRET)
    k_ptrs = qkv_ptr + (HEADS + key_head) * SIZE + half
    low, high = tl.load(k_ptrs), tl.load(k_ptrs + HALF)
    k_low, k_high = rotated(widen(low, INTERPRET), widen(high, INTERPRET), cos, sin, dtype, INTERPRET)
    value = tl.load(qkv_ptr + (HEADS + KEY_HEADS + key_head) * SIZE + whole)
    cached = key_head.to(tl.int64) * length * SIZE
    row = cached + position * SIZE
    if head % GROUP == 0:
        tl.store(keys_ptr + row + half, narrow(k_low, dtype, INTERPRET))
        tl.store(keys_ptr + row + HALF + half, narrow(k_high, dtype, INTERPRET))
        tl.store(values_ptr + row + whole, value)

    # Online softmax, beginning with the token itself.
    largest = tl.sum(q_low * k_low, 0) * scale + tl.sum(q_high * k_high, 0) * scale
    weight = 1.0
    total = widen(value, INTERPRET)
    times = tl.arange(0, BLOCK_T)
    for first in range(0, position, BLOCK_T):
        before = first + times < position
        offsets = cached + (first + times).to(tl.int64)[:, None] * SIZE
        key_ptrs = keys_ptr + offsets + half[None, :]
        lows = widen(tl.load(key_ptrs, mask=before[:, None], other=0.0), INTERPRET)
        highs = widen(tl.load(key_ptrs + HALF, mask=before[:, None], other=0.0), INTERPRET)
        rows = tl.load(values_ptr + offsets + whole[None, :], mask=before[:, None], other=0.0)
        scores = (tl.sum(lows * q_low[None, :], 1) + tl.sum(highs * q_high[None, :], 1)) * scale
        scores = tl.where(before, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 0))
        parts = tl.exp(scores - larger)
        shrink = tl.exp(largest - larger)
        weight = weight * shrink + tl.sum(parts, 0)
        total = total * shrink + tl.sum(widen(rows, INTERPRET) * parts[:, None], 0)
        largest = larger
    tl.store(out_ptr + head * SIZE + whole, narrow(total / weight, dtype, INTERPRET))


@triton.jit
def choose_kernel(
    logits_ptr,  # [E]
    ids_ptr,  # [k] int32 out
    weights_ptr,  # [k] float32 out
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    RENORMALIZE: tl.constexpr,
    EPSILON: tl.constexpr,
    BLOCK: tl.constexpr,
    SERIAL: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Softmax over the experts, then the TOP_K most probable, the lower id first where two are equal; grid (1,)."""
    signal(SERIAL)
    experts = tl.arange(0, BLOCK)
    wait(SERIAL)
    logits = widen(tl.load(logits_ptr + experts, mask=experts < EXPERTS, other=0.0), INTERPRET)
    logits = tl.where(experts < EXPERTS, logits, float("-inf"))
    exponentials = tl.exp(logits - tl.max(logits, 0))
    probabilities = exponentials / tl.sum(exponentials, 0)
    left = tl.where(experts < EXPERTS, probabilities, -1.0)
    norm = 1.0
    if RENORMALIZE:
        norm = EPSILON
        for _ in tl.static_range(TOP_K):
            best = tl.max(left, 0)
            chosen = tl.min(tl.where(left == best, experts, BLOCK), 0)
            norm += best
            left = tl.where(experts == chosen, -1.0, left)
        left = tl.where(experts < EXPERTS, probabilities, -1.0)
    for choice in tl.static_range(TOP_K):
        best = tl.max(left, 0)
        chosen = tl.min(tl.where(left == best, experts, BLOCK), 0)
        tl.store(ids_ptr + choice, chosen)
        tl.store(weights_ptr + choice, best / norm)
        left = tl.where(experts == chosen, -1.0, left)
