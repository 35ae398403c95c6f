"""The two matrix products of an expert, one output tile at a time; every kernel family shares them.

Rows of a tile are token slots (token x choice) of one expert, in the order of the schedule. Offsets of rows
and experts are 64 bits wide; inside an expert's matrix 32 bits are enough (:mod:`dispatch.limits`).

Rows past the tile's end and channels past the matrix' end read row 0 instead of being masked in the loop:
what they compute is never stored, and no row of a product depends on another.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_coordinates(index, row_tiles, channel_tiles, GROUP_M: tl.constexpr):
    """Row tile and channel tile of the ``index``-th program: GROUP_M row tiles share a weight tile in L2."""
    per_group = GROUP_M * channel_tiles
    first = index // per_group * GROUP_M
    group_rows = tl.minimum(row_tiles - first, GROUP_M)
    within = index % per_group
    return first + within % group_rows, within // group_rows


@triton.jit
def widen(value, INTERPRET: tl.constexpr):
    """``value`` in float32.

    The interpreter's own conversion from bfloat16 goes bit by bit; a bfloat16 is the upper half of a float32.
    """
    if INTERPRET and value.dtype == tl.bfloat16:
        return (value.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    return value.to(tl.float32)


@triton.jit
def narrow(value, dtype: tl.constexpr, INTERPRET: tl.constexpr):
    """float32 ``value`` in ``dtype``, rounded to nearest even everywhere.

    The interpreter cuts the lower half of a float32 off when it makes a bfloat16, so the rounding is done on
    the bits before. NaN keeps its bits.
    """
    if INTERPRET and dtype == tl.bfloat16:
        bits = value.to(tl.uint32, bitcast=True)
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        bits = tl.where(value == value, rounded, bits | 0x400000)  # noqa: PLR0124 - false for NaN
        return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return value.to(dtype)


@triton.jit
def accumulate(rows, weights, total, SWAP_AB: tl.constexpr, INTERPRET: tl.constexpr):
    """``total`` plus the product of ``rows`` [BLOCK_M, BLOCK_K] and ``weights`` [BLOCK_N, BLOCK_K].

    ``total`` is [BLOCK_M, BLOCK_N], or [BLOCK_N, BLOCK_M] with SWAP_AB; int32 if rows are int8, else float32.
    Under the interpreter an int8 step is summed in float32, which is exact below 2^24 / 127^2 = 1040 terms.
    """
    if INTERPRET:
        # Interpreted tl.dot takes the bits of bfloat16 operands for integers (Triton 3.7.1).
        rows = widen(rows, INTERPRET)
        weights = widen(weights, INTERPRET)
    elif rows.dtype != tl.int8:
        weights = weights.to(rows.dtype)
    if SWAP_AB:
        left, right = weights, tl.trans(rows)
    else:
        left, right = rows, tl.trans(weights)
    if INTERPRET:
        # IEEE, though the interpreter knows no other: never TF32.
        total += tl.dot(left, right, input_precision="ieee").to(total.dtype)
    else:
        total = tl.dot(left, right, total, out_dtype=total.dtype)
    return total


@triton.jit
def gate_up_tile(
    x_ptr,  # [M, H], rows x_stride apart
    x_stride,
    x_scale_ptr,  # [M] float32, or None
    w_ptr,  # [E, 2 I, H]
    w_expert_stride,
    w_row_stride,
    w_scale_ptr,  # [E, 2 I] float32 contiguous, or None
    activated_ptr,  # [slots, I] contiguous, rows in schedule order
    order_ptr,  # [slots] int32: slot at each place of the schedule
    expert,
    first_row,
    end_row,
    channel_tile,
    hidden,
    intermediate,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SWAP_AB: tl.constexpr,
    WHOLE_K: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """``silu(gate) * up`` of BLOCK_M rows and BLOCK_N channels; gate and up never leave the registers."""
    rows = first_row + tl.arange(0, BLOCK_M)
    valid = rows < end_row
    token = tl.load(order_ptr + rows, mask=valid, other=0) // TOP_K
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    weight_rows = tl.where(channels < intermediate, channels, 0)
    steps = tl.arange(0, BLOCK_K)

    x_ptrs = x_ptr + token.to(tl.int64)[:, None] * x_stride + steps[None, :]
    gate_ptr = w_ptr + expert.to(tl.int64) * w_expert_stride
    gate_ptrs = gate_ptr + weight_rows[:, None] * w_row_stride + steps[None, :]
    up_ptrs = gate_ptrs + intermediate.to(tl.int64) * w_row_stride

    total_dtype: tl.constexpr = tl.int32 if x_ptr.dtype.element_ty == tl.int8 else tl.float32
    TOTAL_M: tl.constexpr = BLOCK_N if SWAP_AB else BLOCK_M
    TOTAL_N: tl.constexpr = BLOCK_M if SWAP_AB else BLOCK_N
    gate = tl.full((TOTAL_M, TOTAL_N), 0, dtype=total_dtype)
    up = tl.full((TOTAL_M, TOTAL_N), 0, dtype=total_dtype)
    for start in range(0, hidden, BLOCK_K):
        if WHOLE_K:
            x = tl.load(x_ptrs)
            w_gate = tl.load(gate_ptrs)
            w_up = tl.load(up_ptrs)
        else:
            inside = (steps < hidden - start)[None, :]
            x = tl.load(x_ptrs, mask=inside, other=0)
            w_gate = tl.load(gate_ptrs, mask=inside, other=0)
            w_up = tl.load(up_ptrs, mask=inside, other=0)
        gate = accumulate(x, w_gate, gate, SWAP_AB, INTERPRET)
        up = accumulate(x, w_up, up, SWAP_AB, INTERPRET)
        x_ptrs += BLOCK_K
        gate_ptrs += BLOCK_K
        up_ptrs += BLOCK_K

    gate = gate.to(tl.float32)
    up = up.to(tl.float32)
    if SWAP_AB:
        gate = tl.trans(gate)
        up = tl.trans(up)
    if w_scale_ptr is not None:
        scale_ptrs = w_scale_ptr + expert.to(tl.int64) * 2 * intermediate + weight_rows
        gate *= tl.load(scale_ptrs)[None, :]
        up *= tl.load(scale_ptrs + intermediate)[None, :]
    if x_scale_ptr is not None:
        row_scale = tl.load(x_scale_ptr + token)[:, None]
        gate *= row_scale
        up *= row_scale
    # silu(gate) = gate * sigmoid(gate), with an exponential that cannot overflow.
    small = tl.exp(-tl.abs(gate))
    activated = gate * tl.where(gate >= 0, 1.0, small) / (1.0 + small) * up
    activated = narrow(activated, activated_ptr.dtype.element_ty, INTERPRET)
    out_ptrs = activated_ptr + rows.to(tl.int64)[:, None] * intermediate + channels[None, :]
    tl.store(out_ptrs, activated, mask=valid[:, None] & (channels < intermediate)[None, :])


@triton.jit
def down_tile(
    activated_ptr,  # [slots, I] contiguous, rows in schedule order
    activated_scale_ptr,  # [slots] float32, or None
    w_ptr,  # [E, H, I]
    w_expert_stride,
    w_row_stride,
    w_scale_ptr,  # [E, H] float32 contiguous, or None
    router_ptr,  # [slots] float32
    down_ptr,  # [slots, H] contiguous, rows in slot order
    order_ptr,  # [slots] int32: slot at each place of the schedule
    expert,
    first_row,
    end_row,
    channel_tile,
    hidden,
    intermediate,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SWAP_AB: tl.constexpr,
    WHOLE_K: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """The down projection of BLOCK_M rows and BLOCK_N channels times the router's weight, put at its slot."""
    rows = first_row + tl.arange(0, BLOCK_M)
    valid = rows < end_row
    inside_rows = tl.where(valid, rows, first_row).to(tl.int64)
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    weight_rows = tl.where(channels < hidden, channels, 0)
    steps = tl.arange(0, BLOCK_K)

    a_ptrs = activated_ptr + inside_rows[:, None] * intermediate + steps[None, :]
    w_ptrs = (
        w_ptr + expert.to(tl.int64) * w_expert_stride + weight_rows[:, None] * w_row_stride + steps[None, :]
    )

    total_dtype: tl.constexpr = tl.int32 if activated_ptr.dtype.element_ty == tl.int8 else tl.float32
    TOTAL_M: tl.constexpr = BLOCK_N if SWAP_AB else BLOCK_M
    TOTAL_N: tl.constexpr = BLOCK_M if SWAP_AB else BLOCK_N
    total = tl.full((TOTAL_M, TOTAL_N), 0, dtype=total_dtype)
    for start in range(0, intermediate, BLOCK_K):
        if WHOLE_K:
            a = tl.load(a_ptrs)
            w = tl.load(w_ptrs)
        else:
            inside = (steps < intermediate - start)[None, :]
            a = tl.load(a_ptrs, mask=inside, other=0)
            w = tl.load(w_ptrs, mask=inside, other=0)
        total = accumulate(a, w, total, SWAP_AB, INTERPRET)
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K

    total = total.to(tl.float32)
    if SWAP_AB:
        total = tl.trans(total)
    slot = tl.load(order_ptr + rows, mask=valid, other=0)
    if w_scale_ptr is not None:
        total *= tl.load(w_scale_ptr + expert.to(tl.int64) * hidden + weight_rows)[None, :]
    row_scale = tl.load(router_ptr + slot, mask=valid, other=0.0)
    if activated_scale_ptr is not None:
        row_scale *= tl.load(activated_scale_ptr + inside_rows)
    total *= row_scale[:, None]
    out_ptrs = down_ptr + slot.to(tl.int64)[:, None] * hidden + channels[None, :]
    out = narrow(total, down_ptr.dtype.element_ty, INTERPRET)
    tl.store(out_ptrs, out, mask=valid[:, None] & (channels < hidden)[None, :])
