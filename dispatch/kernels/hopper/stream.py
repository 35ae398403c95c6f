"""``stream``: the weights are streamed once, and the few rows of an expert ride along.

    plan (+ x to limbs)    gate + up + SiLU (+ result to limbs)    down x router weight    sum over choices

Four launches. The weights are the first operand of both products, so that a tile of 16 rows still fills
wgmma (m64n16); the bound is the weights' way through memory, and everything else is arranged around the
bytes in flight: long steps, deep pipelines, no dependent load between a program's start and its first
weights but the name of its expert.

Where most experts fill no more than half a tile, the last tile of an expert may be half as high: hot experts
get high tiles, which read their weights less often from L2, and cold ones do not pay for it.

With int8 weights the first product's epilogue turns its own result into limbs with one scale for each row
and group of GROUP columns, which costs no launch and no pass; the second product rescales once a group.
"""

# ruff: noqa: PLR2004 - Triton spells compile-time arguments in capitals, and a kernel has many
# ruff: noqa: SIM114 - what is known at compile time is asked on its own, so that it costs no code
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from dataclasses import replace

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
from dispatch.kernels.hopper.limbs import limb_scale, magnitude, to_limbs
from dispatch.kernels.hopper.plan import build_plan, limbs_of
from dispatch.kernels.hopper.pointwise import silu
from dispatch.kernels.hopper.product import product
from dispatch.kernels.tile import narrow

# Channels of a gate tile, and so the group of intermediate columns that share a scale.
GROUP = 64
_STEP = 128
# Up to here an expert has hardly more than one row, and a deeper pipeline pays.
_FEW_ROWS = 4
_LEAST_HEIGHT = 16


class Stream:
    """Weights first; for calls that the weights' bytes bound."""

    name = "stream"

    def refuses(self, problem: Problem) -> str | None:
        """Another device, or sizes that are no multiple of a step."""
        return refuses(problem, GROUP, _STEP)

    def preference(self, problem: Problem) -> float:
        """Positive up to where an expert's rows make the matrix rate the bound."""
        if problem.device.interpreted:
            return -2.0
        return 2.0 if problem.rows_per_expert <= most_rows(problem) else -2.0

    def configure(self, problem: Problem) -> MoeConfig:
        """Measured tiles of the device, else the model's."""
        return tables.configure(problem, self.name, model)

    def launches(self, problem: Problem) -> int:  # noqa: ARG002
        """Plan, two products, sum."""
        return 4

    def run(self, tensors: MoeTensors, problem: Problem, config: MoeConfig, call: Call) -> None:
        """See :class:`dispatch.kernels.family.Family`."""
        call.kernels(lambda: _kernels(tensors, problem, config))
        plan = build_plan(tensors, problem, config.block_m, call, halves=has_halves(problem, config))
        limbs = max(1, plan.limbs)
        padded = plan.max_tiles * config.block_m
        groups = problem.intermediate // GROUP
        activated = call.empty(
            (padded * limbs, problem.intermediate), torch.int8 if plan.limbs else tensors.x.dtype
        )
        activated_scale = call.empty((padded, groups), torch.float32) if plan.limbs else plan.x_scale
        down = call.empty((problem.slots, problem.hidden), tensors.x.dtype)
        call.launch(
            "gate_up",
            (plan.max_tiles * groups, 1, 1),
            *(plan.x, plan.x.stride(0), plan.x_scale, tensors.w13, tensors.w13.stride(0), tensors.w13_scale),
            *(activated, activated_scale, plan.rows, plan.tiles),
        )
        call.launch(
            "down",
            (plan.max_tiles * (problem.hidden // config.down.block_n), 1, 1),
            *(activated, activated_scale, tensors.w2, tensors.w2.stride(0), tensors.w2_scale),
            *(tensors.topk_weights, down, plan.rows, plan.tiles),
        )
        combine(down, tensors, problem, call)


def _kernels(tensors: MoeTensors, problem: Problem, config: MoeConfig) -> Kernels:
    """Both products, to be compiled for these tiles."""
    gate_up, down = config.gate_up, config.down
    sizes = {"HIDDEN": problem.hidden, "INTERMEDIATE": problem.intermediate}
    limbs, interpret, options = limbs_of(problem), problem.device.interpreted, overlap(problem.device)
    halves = has_halves(problem, config)
    return {
        "gate_up": Kernel(
            gate_up_kernel,
            {
                "EXPERTS": problem.experts,
                "W_ROW_STRIDE": tensors.w13.stride(1),
                **sizes,
                "TOP_K": problem.top_k,
                "BLOCK_M": gate_up.block_m,
                "BLOCK_N": GROUP,
                "BLOCK_K": gate_up.block_k,
                "HALVES": halves,
                "LIMBS": limbs,
                "STAGES": gate_up.num_stages,
                "INTERPRET": interpret,
            },
            num_warps=gate_up.num_warps,
            **options,
        ),
        "down": Kernel(
            down_kernel,
            {
                "EXPERTS": problem.experts,
                "W_ROW_STRIDE": tensors.w2.stride(1),
                **sizes,
                "BLOCK_M": down.block_m,
                "BLOCK_N": down.block_n,
                "BLOCK_K": down.block_k,
                "GROUP_K": GROUP,
                "HALVES": halves,
                "LIMBS": limbs,
                "STAGES": down.num_stages,
                "INTERPRET": interpret,
            },
            num_warps=down.num_warps,
            **options,
        ),
    }


def has_halves(problem: Problem, config: MoeConfig) -> bool:
    """Whether an expert's last tile may be half as high, which wgmma takes from _LEAST_HEIGHT rows on.

    It pays where most experts fill no more than half a tile and a few need many; where most need a whole
    one, the second copy of the loop only costs registers.
    """
    return config.block_m > _LEAST_HEIGHT and 2 * problem.rows_per_expert <= config.block_m


def most_rows(problem: Problem) -> float:
    """Rows an expert up to which ``stream`` is the better choice than ``tiled``."""
    return 64.0 if limbs_of(problem) != 2 else 24.0


def model(problem: Problem) -> MoeConfig:
    """Tiles for a shape that nobody measured: as high as the mean rows of an expert need, as deep as fits."""
    limbs = limbs_of(problem)
    rows = problem.rows_per_expert
    if problem.device.interpreted:
        hidden, _ = interpreted_blocks(problem)
        return MoeConfig(TileConfig(16, GROUP, hidden), TileConfig(16, hidden, _STEP), "interpreter")
    block_m = 16 if rows <= _FEW_ROWS else 32 if rows <= 16 or (limbs == 2 and rows <= 26) else 64
    wide = rows > 16
    if limbs == 0:
        gate_up = TileConfig(block_m, GROUP, 128 if block_m == 16 else 64, 4, 5 if block_m == 32 else 3)
        down = replace(gate_up, block_n=128, num_stages=4) if wide else gate_up
    else:
        gate_up = TileConfig(block_m, GROUP, 128, 4, 3)
        if (limbs == 2 and not wide) or rows <= _FEW_ROWS:
            gate_up = replace(gate_up, num_stages=4)
        if limbs == 1 and block_m == 16 and problem.hidden % 256 == 0:
            gate_up = TileConfig(block_m, GROUP, 256, 4, 3)
        down = TileConfig(block_m, 128, 128, 4, 3) if wide else TileConfig(block_m, 64, 128, 4, 4)
        if limbs == 2 and block_m == 32:
            down = replace(down, num_stages=3)
    return MoeConfig(gate_up, down, "model", f"{rows:.1f} rows an expert")


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


FAMILY = Stream()
