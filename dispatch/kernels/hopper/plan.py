"""The padded schedule of ``stream`` and ``tiled``, and the quantisation of x, in one launch.

Every expert's slots are padded to whole tiles, so that a product needs one load to know its rows and none to
know where its result goes:

    rows [max_tiles * BLOCK_M] int32    slot (token * k + choice) of each row, -1 for padding
    tiles [max_tiles] int32             expert of each tile, -1 past the last; with HALVES an expert's last
                                        tile that is at most half full is expert + E

Few slots are planned by one program: integer counters in memory hand out places, so the order of an
expert's rows is not fixed, but no row of a product depends on another and each result goes to its slot.
Many slots are planned by one program an expert: each counts the slots of all experts, so that it knows where
its own tiles begin without waiting for another program, and writes its slots in ascending order. With int8
weights further programs turn one row of x each into limbs. The launch depends on M, k and E alone.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.call import Call
from dispatch.kernels.compiled import Kernel
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.hopper.launch import signal
from dispatch.kernels.hopper.limbs import row_to_limbs
from dispatch.kernels.schedule import max_row_tiles

_MOST_SLOTS_A_STEP = 4096
_LEAST_BINS = 64
_TILES_A_STEP = 64
_MANY_SLOTS = 2048


@dataclass(frozen=True)
class Plan:
    """Buffers of a plan, and x as the products read it.

    Attributes:
        rows: [max_tiles * block_m] int32.
        tiles: [max_tiles] int32, and E counters behind them.
        max_tiles: tiles that there can be, whatever the ids are.
        x: [M, H] as given, or int8 [M * limbs, H], the limbs of a row beside each other.
        x_scale: [M] float32; a tensor that nothing reads where x is not quantised.
        limbs: 0 for 16-bit weights, 1 for int8_w8a8, 2 for int8_w8a16.
    """

    rows: torch.Tensor
    tiles: torch.Tensor
    max_tiles: int
    x: torch.Tensor
    x_scale: torch.Tensor
    limbs: int


def limbs_of(problem: Problem) -> int:
    """int8 limbs of an activation: 0 for 16-bit weights, 1 for int8_w8a8, 2 for int8_w8a16."""
    if not problem.precision.int8_weights:
        return 0
    return 1 if problem.precision.int8_activations else 2


def build_plan(
    tensors: MoeTensors, problem: Problem, block_m: int, call: Call, *, halves: bool = False
) -> Plan:
    """Sort the slots by expert into padded tiles of ``block_m`` rows, and quantise x where weights are int8.

    Ids under 0 are left out; ids of E and above too, and ``tensors.out_of_range`` is set.
    """
    x, limbs = tensors.x, limbs_of(problem)
    max_tiles = max_row_tiles(problem.slots, problem.experts, block_m)
    bins = max(_LEAST_BINS, triton.next_power_of_2(problem.experts + 1))
    most_tiles = triton.next_power_of_2(max_tiles)
    # One program compares every tile with every expert, in one tensor.
    few = problem.slots <= _MANY_SLOTS and not halves and most_tiles * bins <= tl.TRITON_MAX_TENSOR_NUMEL
    constants = {
        "FEW": few,
        "MOST_TILES": most_tiles if few else 1,
        "BLOCK_M": block_m,
        "HALVES": halves,
        "BINS": bins,
        "STEP": min(_MOST_SLOTS_A_STEP, max(64, triton.next_power_of_2(problem.slots))),
        "TILE_STEP": _TILES_A_STEP,
        "LIMBS": limbs,
        "BLOCK_H": triton.next_power_of_2(problem.hidden),
        "INTERPRET": problem.device.interpreted,
    }
    call.kernel("plan", lambda: Kernel(plan_kernel, constants, num_warps=8))
    rows = call.empty((max_tiles * block_m,), torch.int32)
    tiles = call.empty((max_tiles + problem.experts,), torch.int32)
    x_scale = call.empty((problem.tokens,), torch.float32)
    quantized = x
    if limbs:
        quantized = call.empty((problem.tokens * limbs, problem.hidden), torch.int8)
    planners = 1 if few else problem.experts
    call.launch(
        "plan",
        (planners + (problem.tokens if limbs else 0), 1, 1),
        *(tensors.topk_ids, rows, tiles, tensors.out_of_range, x, x.stride(0), quantized, x_scale),
        *(problem.slots, max_tiles, problem.experts, problem.hidden),
    )
    return Plan(rows, tiles, max_tiles, quantized, x_scale, limbs)


@triton.jit(do_not_specialize=["slots", "max_tiles"])
def plan_kernel(
    ids_ptr,
    rows_ptr,
    tiles_ptr,
    flag_ptr,
    x_ptr,
    x_stride,
    quantized_ptr,
    x_scale_ptr,
    slots,
    max_tiles,
    experts,
    hidden,
    FEW: tl.constexpr,
    MOST_TILES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    HALVES: tl.constexpr,
    BINS: tl.constexpr,
    STEP: tl.constexpr,
    TILE_STEP: tl.constexpr,
    LIMBS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Grid (planners,), and M more with limbs; planners are 1 where slots are FEW, else E."""
    signal(INTERPRET)
    program = tl.program_id(0)
    planners = 1 if FEW else experts
    if program < planners:
        if FEW:
            _plan_all(
                ids_ptr, rows_ptr, tiles_ptr, tiles_ptr + max_tiles, flag_ptr, slots, max_tiles, experts,
                MOST_TILES, BLOCK_M, BINS, STEP,
            )  # fmt: skip
        else:
            _plan_expert(
                ids_ptr, rows_ptr, tiles_ptr, flag_ptr, program, slots, max_tiles, experts,
                BLOCK_M, HALVES, BINS, STEP, TILE_STEP,
            )  # fmt: skip
    elif LIMBS > 0:
        row = (program - planners).to(tl.int64)
        columns = tl.arange(0, BLOCK_H)
        row_to_limbs(
            x_ptr + row * x_stride + columns, quantized_ptr + row * LIMBS * hidden + columns, hidden,
            x_scale_ptr + row, columns < hidden, LIMBS, INTERPRET,
        )  # fmt: skip


@triton.jit
def _plan_all(
    ids_ptr,
    rows_ptr,
    tiles_ptr,
    counters_ptr,  # [E]; what it holds before does not matter
    flag_ptr,
    slots,
    max_tiles,
    experts,
    MOST_TILES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BINS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Tiles and rows of all experts; STEP covers the slots, MOST_TILES the tiles."""
    bins = tl.arange(0, BINS)
    lanes = tl.arange(0, STEP)
    tile = tl.arange(0, MOST_TILES)
    ids = tl.load(ids_ptr + lanes, mask=lanes < slots, other=-1)
    tl.store(counters_ptr + bins, 0, mask=bins < experts)
    places = tl.arange(0, MOST_TILES * BLOCK_M)
    tl.store(rows_ptr + places, -1, mask=places < max_tiles * BLOCK_M)
    valid = (ids >= 0) & (ids < experts)
    if tl.max((ids >= experts).to(tl.int32), 0) > 0:
        tl.store(flag_ptr, 1)
    # Narrowed only where it is valid: a 64-bit id must not be cut to one that names an expert.
    counter = tl.where(valid, ids, 0).to(tl.int32)
    tl.debug_barrier()
    place = tl.atomic_add(counters_ptr + counter, 1, mask=valid, sem="relaxed")
    tl.debug_barrier()
    counts = tl.load(counters_ptr + bins, mask=bins < experts, other=0, volatile=True)
    needed = (counts + BLOCK_M - 1) // BLOCK_M
    ends = tl.cumsum(needed, 0)
    # An expert's tiles lie before the sum of all up to it: the expert of a tile is how many sums it has reached.
    expert = tl.sum((tile[:, None] >= ends[None, :]).to(tl.int32), 1)
    tl.store(tiles_ptr + tile, tl.where(tile < tl.sum(needed, 0), expert, -1), mask=tile < max_tiles)
    tl.debug_barrier()
    # The counters now hand out the first tile of each expert.
    tl.store(counters_ptr + bins, ends - needed, mask=bins < experts)
    tl.debug_barrier()
    first = tl.load(counters_ptr + counter, mask=valid, other=0, volatile=True)
    tl.store(rows_ptr + first * BLOCK_M + place, lanes, mask=valid)


@triton.jit
def _plan_expert(
    ids_ptr,
    rows_ptr,
    tiles_ptr,
    flag_ptr,
    expert,
    slots,
    max_tiles,
    experts,
    BLOCK_M: tl.constexpr,
    HALVES: tl.constexpr,
    BINS: tl.constexpr,
    STEP: tl.constexpr,
    TILE_STEP: tl.constexpr,
):
    """Tiles and rows of one expert."""
    lanes = tl.arange(0, STEP)
    bins = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), dtype=tl.int32)
    too_large = 0
    for start in range(0, slots, STEP):
        ids = tl.load(ids_ptr + start + lanes, mask=start + lanes < slots, other=-1)
        valid = (ids >= 0) & (ids < experts)
        too_large = tl.maximum(too_large, tl.max((ids >= experts).to(tl.int32), 0))
        # The last bin is nobody's: experts < BINS.
        counts += tl.histogram(tl.where(valid, ids, BINS - 1).to(tl.int32), BINS)
    counts = tl.where(bins < experts, counts, 0)
    needed = (counts + BLOCK_M - 1) // BLOCK_M
    first = tl.sum(tl.where(bins < expert, needed, 0), 0)
    count = tl.sum(tl.where(bins == expert, counts, 0), 0)
    mine = tl.sum(tl.where(bins == expert, needed, 0), 0)
    total = tl.sum(needed, 0)

    tile_lanes = tl.arange(0, TILE_STEP)
    for start in range(0, mine, TILE_STEP):
        tile = start + tile_lanes
        name = tile * 0 + expert
        if HALVES:
            name += tl.where((tile == mine - 1) & (count - tile * BLOCK_M <= BLOCK_M // 2), experts, 0)
        tl.store(tiles_ptr + first + tile, name, mask=tile < mine)
    if expert == 0:
        for start in range(total, max_tiles, TILE_STEP):
            tl.store(tiles_ptr + start + tile_lanes, -1, mask=start + tile_lanes < max_tiles)
        if too_large > 0:
            tl.store(flag_ptr, 1)

    base = first * BLOCK_M
    padding = tl.arange(0, BLOCK_M)
    tl.store(rows_ptr + base + count + padding, -1, mask=count + padding < mine * BLOCK_M)
    placed = 0
    for start in range(0, slots, STEP):
        if placed < count:
            ids = tl.load(ids_ptr + start + lanes, mask=start + lanes < slots, other=-1)
            chosen = (ids == expert).to(tl.int32)
            place = tl.cumsum(chosen, 0) - chosen
            tl.store(rows_ptr + base + placed + place, start + lanes, mask=chosen > 0)
            placed += tl.sum(chosen, 0)
