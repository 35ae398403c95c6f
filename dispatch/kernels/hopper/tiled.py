"""``tiled``: many tokens. The tokens are the first operand, in the largest tiles that registers hold.

    plan (+ x to limbs)    gate + up + SiLU    [result to limbs]    down x router weight    sum over choices

Four launches, five with int8 weights. One product of 256 columns makes gate and up together: columns come
in alternating groups of eight, so that a thread of the accumulator holds a gate beside its up and nothing is
exchanged for SiLU. With two limbs a token's limbs are eight rows apart for the same reason.

Tiles are BLOCK_M rows high; the last tile of an expert is half as high where that is enough, which removes
half of the padding.
"""

# ruff: noqa: PLR2004 - Triton spells compile-time arguments in capitals, and a kernel has many
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from dispatch import tables
from dispatch.config import MoeConfig, Problem, TileConfig
from dispatch.kernels.call import Call
from dispatch.kernels.compiled import Kernel, Kernels
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.hopper.combine import combine
from dispatch.kernels.hopper.launch import interpreted_blocks, overlap, refuses, signal, wait
from dispatch.kernels.hopper.limbs import row_to_limbs
from dispatch.kernels.hopper.plan import build_plan, limbs_of
from dispatch.kernels.hopper.pointwise import silu
from dispatch.kernels.hopper.product import product
from dispatch.kernels.hopper.stream import most_rows
from dispatch.kernels.tile import narrow, tile_coordinates
from dispatch.limits import check_grid

_CHANNELS = 128
_STEP = 128


class Tiled:
    """Tokens first; for calls that the matrix rate bounds."""

    name = "tiled"

    def refuses(self, problem: Problem) -> str | None:
        """Another device, or sizes that are no multiple of a tile."""
        return refuses(problem, _CHANNELS, _STEP)

    def preference(self, problem: Problem) -> float:
        """Positive where an expert has rows for whole tiles."""
        if problem.device.interpreted:
            return -2.0
        return 2.0 if problem.rows_per_expert > most_rows(problem) else -2.0

    def configure(self, problem: Problem) -> MoeConfig:
        """Measured tiles of the device, else the model's."""
        return tables.configure(problem, self.name, model)

    def launches(self, problem: Problem) -> int:
        """Plan, two products, sum; with int8 weights one more between the products."""
        return 5 if problem.precision.int8_weights else 4

    def run(self, tensors: MoeTensors, problem: Problem, config: MoeConfig, call: Call) -> None:
        """See :class:`dispatch.kernels.family.Family`."""
        call.kernels(lambda: _kernels(tensors, problem, config))
        plan = build_plan(tensors, problem, config.block_m, call, halves=True)
        padded = plan.max_tiles * config.block_m
        activated = call.empty((padded, problem.intermediate), tensors.x.dtype)
        rows, row_scale = activated, plan.x_scale
        call.launch(
            "gate_up",
            (plan.max_tiles * (problem.intermediate // config.gate_up.block_n), 1, 1),
            *(plan.x, plan.x.stride(0), plan.x_scale, tensors.w13, tensors.w13.stride(0), tensors.w13_scale),
            *(activated, plan.rows, plan.tiles, plan.max_tiles),
        )
        if plan.limbs:
            rows = call.empty((padded * plan.limbs, problem.intermediate), torch.int8)
            row_scale = call.empty((padded,), torch.float32)
            call.launch(
                "to_limbs", (check_grid(padded, "to_limbs"), 1, 1), activated, rows, row_scale, plan.rows
            )
        down = call.empty((problem.slots, problem.hidden), tensors.x.dtype)
        call.launch(
            "down",
            (plan.max_tiles * (problem.hidden // config.down.block_n), 1, 1),
            *(rows, row_scale, tensors.w2, tensors.w2.stride(0), tensors.w2_scale),
            *(tensors.topk_weights, down, plan.rows, plan.tiles, plan.max_tiles),
        )
        combine(down, tensors, problem, call)


def _kernels(tensors: MoeTensors, problem: Problem, config: MoeConfig) -> Kernels:
    """Both products and the pass between them, to be compiled for these tiles."""
    gate_up, down = config.gate_up, config.down
    limbs, interpret, options = limbs_of(problem), problem.device.interpreted, overlap(problem.device)
    experts = {"EXPERTS": problem.experts}
    sizes = {"HIDDEN": problem.hidden, "INTERMEDIATE": problem.intermediate}

    def tile_constants(tile: TileConfig) -> dict[str, Any]:
        return {
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
            "GROUP_M": tile.group_m,
            "LIMBS": limbs,
            "STAGES": tile.num_stages,
            "INTERPRET": interpret,
        }

    return {
        "gate_up": Kernel(
            gate_up_kernel,
            {
                **experts,
                "W_ROW_STRIDE": tensors.w13.stride(1),
                **sizes,
                "TOP_K": problem.top_k,
                **tile_constants(gate_up),
            },
            num_warps=gate_up.num_warps,
            **options,
        ),
        "to_limbs": Kernel(
            to_limbs_kernel,
            {
                "COLUMNS": problem.intermediate,
                "BLOCK": triton.next_power_of_2(problem.intermediate),
                "LIMBS": limbs,
                "INTERPRET": interpret,
            },
            num_warps=4,
            **options,
        ),
        "down": Kernel(
            down_kernel,
            {**experts, "W_ROW_STRIDE": tensors.w2.stride(1), **sizes, **tile_constants(down)},
            num_warps=down.num_warps,
            **options,
        ),
    }


def model(problem: Problem) -> MoeConfig:
    """Tiles of 128 rows of limbs; the product is 256 columns wide, or as wide as int8 wgmma goes."""
    limbs = limbs_of(problem)
    if problem.device.interpreted:
        hidden, intermediate = interpreted_blocks(problem)
        return MoeConfig(
            TileConfig(16, intermediate, hidden), TileConfig(16, hidden, intermediate), "interpreter"
        )
    block_m = 64 if limbs == 2 else 128
    step = 128 if limbs else 64
    gate_up = TileConfig(block_m, _CHANNELS, step, 8, 4, group_m=4)
    wide = problem.hidden % 256 == 0 and limbs == 0
    down = TileConfig(block_m, 256 if wide else 128, step, 8, 4 if limbs == 0 else 3, group_m=4)
    return MoeConfig(gate_up, down, "model", f"{problem.rows_per_expert:.1f} rows an expert")


@triton.jit
def tile_row(i, LIMBS: tl.constexpr):
    """Row of the tile, and limb, that line ``i`` of the first operand holds: limbs are eight lines apart."""
    if LIMBS == 2:
        row, limb = i // 16 * 8 + i % 8, i % 16 // 8
    else:
        row, limb = i, i * 0
    return row, limb


@triton.jit
def join_limbs(total, LINES: tl.constexpr, WIDTH: tl.constexpr, LIMBS: tl.constexpr):
    """Products of LINES lines as float32 rows."""
    if LIMBS == 2:
        apart = tl.permute(tl.reshape(total, (LINES // 16, 2, 8, WIDTH)), (0, 2, 3, 1))
        high, low = tl.split(apart)
        joined = tl.reshape(high.to(tl.float32) * 128.0 + low.to(tl.float32), (LINES // 2, WIDTH))
    else:
        joined = total.to(tl.float32)
    return joined


@triton.jit(do_not_specialize=["max_tiles"])
def gate_up_kernel(
    x_ptr,  # [M, H], or int8 [M * LIMBS, H]
    x_stride,
    x_scale_ptr,  # [M]
    w_ptr,  # [E, 2 I, H]
    w_expert_stride,
    w_scale_ptr,  # [E, 2 I], or None
    activated_ptr,  # [padded, I]
    rows_ptr,
    tiles_ptr,
    max_tiles,
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """``silu(gate) * up`` of one row tile and BLOCK_N channels; grid (max_tiles * I / BLOCK_N,)."""
    tile, channel_tile = tile_coordinates(tl.program_id(0), max_tiles, INTERMEDIATE // BLOCK_N, GROUP_M)
    wait(INTERPRET)
    signal(INTERPRET)
    name = tl.load(tiles_ptr + tile)
    if name < 0:
        return
    expert = (name % EXPERTS).to(tl.int64)
    w_ptr += expert * w_expert_stride
    if LIMBS > 0:
        w_scale_ptr += expert * (2 * INTERMEDIATE)
    if name < EXPERTS:
        _gate_up(
            x_ptr, x_stride, x_scale_ptr, w_ptr, w_scale_ptr, activated_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, TOP_K, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip
    else:
        _gate_up(
            x_ptr, x_stride, x_scale_ptr, w_ptr, w_scale_ptr, activated_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, TOP_K, BLOCK_M, BLOCK_M // 2, BLOCK_N, BLOCK_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip


@triton.jit
def _gate_up(
    x_ptr,
    x_stride,
    x_scale_ptr,
    w_ptr,
    w_scale_ptr,
    activated_ptr,
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
    COPIES: tl.constexpr = 2 if LIMBS == 2 else 1
    LINES: tl.constexpr = HEIGHT * COPIES
    row, limb = tile_row(tl.arange(0, LINES), LIMBS)
    slot = tl.load(rows_ptr + tile * BLOCK_M + row)
    x_row = tl.where(slot >= 0, slot // TOP_K, 0) * COPIES + limb
    steps = tl.arange(0, BLOCK_K)
    column = tl.arange(0, 2 * BLOCK_N)
    w_row = (
        channel_tile * BLOCK_N + column // 16 * 8 + column % 8 + tl.where(column % 16 >= 8, INTERMEDIATE, 0)
    )
    x_ptrs = x_ptr + x_row.to(tl.int64)[:, None] * x_stride + steps[None, :]
    w_ptrs = w_ptr + w_row[None, :] * W_ROW_STRIDE + steps[:, None]
    total = tl.zeros((LINES, 2 * BLOCK_N), tl.float32 if LIMBS == 0 else tl.int32)
    for k in tl.range(0, HIDDEN, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_ptrs + k)
        w = tl.load(w_ptrs + k)
        total = product(x, w, total, INTERPRET)
    both = join_limbs(total, LINES, 2 * BLOCK_N, LIMBS)
    gate, up = tl.split(tl.permute(tl.reshape(both, (HEIGHT, BLOCK_N // 8, 2, 8)), (0, 1, 3, 2)))
    gate = tl.reshape(gate, (HEIGHT, BLOCK_N))
    up = tl.reshape(up, (HEIGHT, BLOCK_N))
    rows = tile * BLOCK_M + tl.arange(0, HEIGHT)
    row_slot = tl.load(rows_ptr + rows)
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    if LIMBS > 0:
        x_scale = tl.load(x_scale_ptr + tl.where(row_slot >= 0, row_slot // TOP_K, 0))[:, None]
        gate *= x_scale * tl.load(w_scale_ptr + channels)[None, :]
        up *= x_scale * tl.load(w_scale_ptr + INTERMEDIATE + channels)[None, :]
    result = narrow(silu(gate) * up, activated_ptr.dtype.element_ty, INTERPRET)
    out_ptrs = activated_ptr + rows.to(tl.int64)[:, None] * INTERMEDIATE + channels[None, :]
    tl.store(out_ptrs, result, mask=(row_slot >= 0)[:, None])


@triton.jit
def to_limbs_kernel(
    value_ptr,  # [padded, COLUMNS]
    limbs_ptr,  # int8 [padded * LIMBS, COLUMNS]
    scale_ptr,  # [padded]
    rows_ptr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    LIMBS: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """One row a program; padding rows are left alone. Grid (padded,)."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    wait(INTERPRET)
    signal(INTERPRET)
    if tl.load(rows_ptr + row) < 0:
        return
    row_to_limbs(
        value_ptr + row * COLUMNS + columns, limbs_ptr + row * LIMBS * COLUMNS + columns, COLUMNS,
        scale_ptr + row, columns < COLUMNS, LIMBS, INTERPRET,
    )  # fmt: skip


@triton.jit(do_not_specialize=["max_tiles"])
def down_kernel(
    rows_in_ptr,  # [padded, I], or int8 [padded * LIMBS, I]
    row_scale_ptr,  # [padded]
    w_ptr,  # [E, H, I]
    w_expert_stride,
    w_scale_ptr,  # [E, H], or None
    router_ptr,  # [slots] float32
    down_ptr,  # [slots, H]
    rows_ptr,
    tiles_ptr,
    max_tiles,
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Down projection of one row tile and BLOCK_N channels times the router's weight, put at its slot."""
    tile, channel_tile = tile_coordinates(tl.program_id(0), max_tiles, HIDDEN // BLOCK_N, GROUP_M)
    wait(INTERPRET)
    signal(INTERPRET)
    name = tl.load(tiles_ptr + tile)
    if name < 0:
        return
    expert = (name % EXPERTS).to(tl.int64)
    w_ptr += expert * w_expert_stride
    if LIMBS > 0:
        w_scale_ptr += expert * HIDDEN
    if name < EXPERTS:
        _down(
            rows_in_ptr, row_scale_ptr, w_ptr, w_scale_ptr, router_ptr, down_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, BLOCK_M, BLOCK_M, BLOCK_N, BLOCK_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip
    else:
        _down(
            rows_in_ptr, row_scale_ptr, w_ptr, w_scale_ptr, router_ptr, down_ptr, rows_ptr, tile, channel_tile,
            W_ROW_STRIDE, HIDDEN, INTERMEDIATE, BLOCK_M, BLOCK_M // 2, BLOCK_N, BLOCK_K, LIMBS, STAGES, INTERPRET,
        )  # fmt: skip


@triton.jit
def _down(
    rows_in_ptr,
    row_scale_ptr,
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
    LIMBS: tl.constexpr,
    STAGES: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """HEIGHT of a tile's BLOCK_M rows."""
    COPIES: tl.constexpr = 2 if LIMBS == 2 else 1
    LINES: tl.constexpr = HEIGHT * COPIES
    row, limb = tile_row(tl.arange(0, LINES), LIMBS)
    steps = tl.arange(0, BLOCK_K)
    channels = channel_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    a_ptrs = (
        rows_in_ptr
        + ((tile * BLOCK_M + row) * COPIES + limb).to(tl.int64)[:, None] * INTERMEDIATE
        + steps[None, :]
    )
    w_ptrs = w_ptr + channels[None, :] * W_ROW_STRIDE + steps[:, None]
    total = tl.zeros((LINES, BLOCK_N), tl.float32 if LIMBS == 0 else tl.int32)
    for k in tl.range(0, INTERMEDIATE, BLOCK_K, num_stages=STAGES):
        a = tl.load(a_ptrs + k)
        w = tl.load(w_ptrs + k)
        total = product(a, w, total, INTERPRET)
    result = join_limbs(total, LINES, BLOCK_N, LIMBS)
    rows = tile * BLOCK_M + tl.arange(0, HEIGHT)
    slot = tl.load(rows_ptr + rows)
    used = slot >= 0
    factor = tl.load(router_ptr + slot, mask=used, other=0.0)
    if LIMBS > 0:
        factor *= tl.load(row_scale_ptr + rows, mask=used, other=0.0)
        result *= tl.load(w_scale_ptr + channels)[None, :]
    result = narrow(result * factor[:, None], down_ptr.dtype.element_ty, INTERPRET)
    out_ptrs = down_ptr + slot.to(tl.int64)[:, None] * HIDDEN + channels[None, :]
    tl.store(out_ptrs, result, mask=used[:, None])


FAMILY = Tiled()
