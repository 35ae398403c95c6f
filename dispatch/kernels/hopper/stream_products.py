"""The kernels of ``stream``: both products, with the weights as the first operand of wgmma."""

# ruff: noqa: PLR2004 - Triton spells compile-time arguments in capitals, and a kernel has many
# ruff: noqa: SIM114 - what is known at compile time is asked on its own, so that it costs no code
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.kernels.hopper.launch import signal, wait
from dispatch.kernels.hopper.limbs import limb_scale, magnitude, to_limbs
from dispatch.kernels.hopper.pointwise import silu
from dispatch.kernels.hopper.product import product
from dispatch.kernels.tile import narrow


@triton.jit
def join_limbs(total, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, LIMBS: tl.constexpr):
    """[BLOCK_N, BLOCK_M * LIMBS] products of limbs, neighbours belonging together, as float32 [BLOCK_N, BLOCK_M]."""
    if LIMBS == 2:
        high, low = tl.split(tl.reshape(total, (BLOCK_N, BLOCK_M, 2)))
        joined = high.to(tl.float32) * 128.0 + low.to(tl.float32)
    else:
        joined = total.to(tl.float32)
    return joined


@triton.jit
def gate_up_kernel(
    x_ptr,  # [M, H], or int8 [M * LIMBS, H]
    x_stride,
    x_scale_ptr,  # [M]
    w_ptr,  # [E, 2 I, H]
    w_expert_stride,
    w_scale_ptr,  # [E, 2 I], or None
    activated_ptr,  # [padded * limbs, I]
    activated_scale_ptr,  # [padded, I / BLOCK_N]
    rows_ptr,
    tiles_ptr,
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """``silu(gate) * up`` of one row tile and BLOCK_N channels; grid (max_tiles * I / BLOCK_N,), channels fastest."""
    CHANNEL_TILES: tl.constexpr = INTERMEDIATE // BLOCK_N
    tile = tl.program_id(0) // CHANNEL_TILES
    channel_tile = tl.program_id(0) % CHANNEL_TILES
    wait(INTERPRET)
    name = tl.load(tiles_ptr + tile)
    signal(INTERPRET)
    if name < 0:
        return
    expert = (name % EXPERTS).to(tl.int64)
    w_ptr += expert * w_expert_stride
    if LIMBS > 0:
        w_scale_ptr += expert * (2 * INTERMEDIATE)
    if not HALVES:
        _gate_up(
            x_ptr, x_stride, x_scale_ptr, w_ptr, w_scale_ptr, activated_ptr, activated_scale_ptr, rows_ptr, tile,
            channel_tile, W_ROW_STRIDE, HIDDEN, INTERMEDIATE, TOP_K, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, LIMBS,
            STAGES, INTERPRET,
        )  # fmt: skip
    elif name < EXPERTS:
        _gate_up(
            x_ptr, x_stride, x_scale_ptr, w_ptr, w_scale_ptr, activated_ptr, activated_scale_ptr, rows_ptr, tile,
            channel_tile, W_ROW_STRIDE, HIDDEN, INTERMEDIATE, TOP_K, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, LIMBS,
            STAGES, INTERPRET,
        )  # fmt: skip
    else:
        _gate_up(
            x_ptr, x_stride, x_scale_ptr, w_ptr, w_scale_ptr, activated_ptr, activated_scale_ptr, rows_ptr, tile,
            channel_tile, W_ROW_STRIDE, HIDDEN, INTERMEDIATE, TOP_K, BLOCK_M, BLOCK_M // 2, BLOCK_N, BLOCK_K, LIMBS,
            STAGES, INTERPRET,
        )  # fmt: skip


@triton.jit
def _gate_up(
    x_ptr,
    x_stride,
    x_scale_ptr,
    w_ptr,
    w_scale_ptr,
    activated_ptr,
    activated_scale_ptr,
    rows_ptr,
    tile,
    channel_tile,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    HEIGHT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """HEIGHT of a tile's BLOCK_M rows."""
    COPIES: tl.constexpr = LIMBS if LIMBS > 0 else 1
    COLUMNS: tl.constexpr = HEIGHT * COPIES
    columns = tl.arange(0, COLUMNS)
    slot = tl.load(rows_ptr + tile * BLOCK_M + columns // COPIES)
    used = slot >= 0
    x_row = tl.where(used, slot // TOP_K, 0) * COPIES + columns % COPIES
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    gate_ptrs = w_ptr + channels[:, None] * W_ROW_STRIDE + steps[None, :]
    up_ptrs = gate_ptrs + INTERMEDIATE * W_ROW_STRIDE
    x_ptrs = x_ptr + x_row.to(tl.int64)[None, :] * x_stride + steps[:, None]
    total_dtype: tl.constexpr = tl.float32 if LIMBS == 0 else tl.int32
    gate = tl.zeros((BLOCK_N, COLUMNS), total_dtype)
    up = tl.zeros((BLOCK_N, COLUMNS), total_dtype)
    for k in tl.range(0, HIDDEN, BLOCK_K, num_stages=STAGES):
        w_gate = tl.load(gate_ptrs + k)
        w_up = tl.load(up_ptrs + k)
        x = tl.load(x_ptrs + k, mask=used[None, :], other=0)
        gate = product(w_gate, x, gate, INTERPRET)
        up = product(w_up, x, up, INTERPRET)

    out_ptrs = (
        activated_ptr
        + (tile * BLOCK_M * COPIES + columns).to(tl.int64)[None, :] * INTERMEDIATE
        + channels[:, None]
    )
    if LIMBS == 0:
        result = narrow(silu(gate) * up, activated_ptr.dtype.element_ty, INTERPRET)
        tl.store(out_ptrs, result, mask=used[None, :])
    else:
        rows = tile * BLOCK_M + tl.arange(0, HEIGHT)
        row_slot = tl.load(rows_ptr + rows)
        row_used = row_slot >= 0
        x_scale = tl.load(x_scale_ptr + tl.where(row_used, row_slot // TOP_K, 0))
        scale_ptrs = w_scale_ptr + channels
        gate = join_limbs(gate, BLOCK_N, HEIGHT, LIMBS) * tl.load(scale_ptrs)[:, None] * x_scale[None, :]
        up = (
            join_limbs(up, BLOCK_N, HEIGHT, LIMBS)
            * tl.load(scale_ptrs + INTERMEDIATE)[:, None]
            * x_scale[None, :]
        )
        result = silu(gate) * up
        size, finite = magnitude(result)
        scale, inverse = limb_scale(tl.max(size, 0), tl.min(finite, 0), LIMBS)
        high, low = to_limbs(result, inverse[None, :], LIMBS)
        limbs = high
        if LIMBS == 2:
            limbs = tl.reshape(tl.join(high, low), (BLOCK_N, COLUMNS))
        tl.store(out_ptrs, limbs, mask=used[None, :])
        scale_ptrs = activated_scale_ptr + rows.to(tl.int64) * (INTERMEDIATE // BLOCK_N) + channel_tile
        tl.store(scale_ptrs, scale, mask=row_used)


@triton.jit
def down_kernel(
    activated_ptr,  # [padded * limbs, I]
    activated_scale_ptr,  # [padded, I / GROUP_K]
    w_ptr,  # [E, H, I]
    w_expert_stride,
    w_scale_ptr,  # [E, H], or None
    router_ptr,  # [slots] float32
    down_ptr,  # [slots, H]
    rows_ptr,
    tiles_ptr,
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_K: tl.constexpr,
    HALVES: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Down projection of one row tile and BLOCK_N channels times the router's weight, put at its slot.

    Grid (max_tiles * H / BLOCK_N,), channels fastest. With limbs a step is one or two groups of columns.
    """
    CHANNEL_TILES: tl.constexpr = HIDDEN // BLOCK_N
    tile = tl.program_id(0) // CHANNEL_TILES
    channel_tile = tl.program_id(0) % CHANNEL_TILES
    wait(INTERPRET)
    signal(INTERPRET)
    name = tl.load(tiles_ptr + tile)
    if name < 0:
        return
    expert = (name % EXPERTS).to(tl.int64)
    w_ptr += expert * w_expert_stride
    if LIMBS > 0:
        w_scale_ptr += expert * HIDDEN
    if not HALVES:
        _down(
            activated_ptr, activated_scale_ptr, w_ptr, w_scale_ptr, router_ptr, down_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip
    elif name < EXPERTS:
        _down(
            activated_ptr, activated_scale_ptr, w_ptr, w_scale_ptr, router_ptr, down_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip
    else:
        _down(
            activated_ptr, activated_scale_ptr, w_ptr, w_scale_ptr, router_ptr, down_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, BLOCK_M, BLOCK_M // 2, BLOCK_N, BLOCK_K, GROUP_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip


@triton.jit
def _down(
    activated_ptr,
    activated_scale_ptr,
    w_ptr,
    w_scale_ptr,
    router_ptr,
    down_ptr,
    rows_ptr,
    tile,
    channel_tile,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    HEIGHT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_K: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """HEIGHT of a tile's BLOCK_M rows."""
    COPIES: tl.constexpr = LIMBS if LIMBS > 0 else 1
    COLUMNS: tl.constexpr = HEIGHT * COPIES
    STEP: tl.constexpr = BLOCK_K if LIMBS == 0 else GROUP_K
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, COLUMNS)
    steps = tl.arange(0, STEP)
    w_ptrs = w_ptr + channels[:, None] * W_ROW_STRIDE + steps[None, :]
    # Padding rows hold what was there before: no row of a product depends on another, and theirs are not stored.
    a_ptrs = (
        activated_ptr
        + (tile * BLOCK_M * COPIES + columns).to(tl.int64)[None, :] * INTERMEDIATE
        + steps[:, None]
    )
    total = tl.zeros((BLOCK_N, COLUMNS), tl.float32)
    if LIMBS == 0:
        for k in tl.range(0, INTERMEDIATE, BLOCK_K, num_stages=STAGES):
            w = tl.load(w_ptrs + k)
            a = tl.load(a_ptrs + k)
            total = product(w, a, total, INTERPRET)
    else:
        GROUPS: tl.constexpr = INTERMEDIATE // GROUP_K
        scale_ptrs = activated_scale_ptr + (tile * BLOCK_M + columns // COPIES).to(tl.int64) * GROUPS
        zero = tl.zeros((BLOCK_N, COLUMNS), tl.int32)
        if BLOCK_K == GROUP_K:
            for k in tl.range(0, INTERMEDIATE, GROUP_K, num_stages=STAGES):
                w = tl.load(w_ptrs + k)
                a = tl.load(a_ptrs + k)
                scale = tl.load(scale_ptrs + k // GROUP_K)
                total += product(w, a, zero, INTERPRET).to(tl.float32) * scale[None, :]
        else:
            for k in tl.range(0, INTERMEDIATE, 2 * GROUP_K, num_stages=STAGES):
                w_left = tl.load(w_ptrs + k)
                w_right = tl.load(w_ptrs + k + GROUP_K)
                a_left = tl.load(a_ptrs + k)
                a_right = tl.load(a_ptrs + k + GROUP_K)
                left = tl.load(scale_ptrs + k // GROUP_K)
                right = tl.load(scale_ptrs + k // GROUP_K + 1)
                total += product(w_left, a_left, zero, INTERPRET).to(tl.float32) * left[None, :]
                total += product(w_right, a_right, zero, INTERPRET).to(tl.float32) * right[None, :]
        total = join_limbs(total, BLOCK_N, HEIGHT, LIMBS)
        total *= tl.load(w_scale_ptr + channels)[:, None]
    slot = tl.load(rows_ptr + tile * BLOCK_M + tl.arange(0, HEIGHT))
    used = slot >= 0
    total *= tl.load(router_ptr + slot, mask=used, other=0.0)[None, :]
    out_ptrs = down_ptr + slot.to(tl.int64)[None, :] * HIDDEN + channels[:, None]
    tl.store(out_ptrs, narrow(total, down_ptr.dtype.element_ty, INTERPRET), mask=used[None, :])
