"""The schedule: token slots sorted by expert, cut into row tiles, built on the device in one launch.

One program an expert. Each counts the slots of all experts, so that it knows where its own begin without
waiting for another program; then it writes its tiles and its slots, in ascending order. The launch
depends on E alone, and the sizes of the buffers on M, k and E: nothing has to be read back on the host.

    order [slots] int32              slot (token * k + choice) at each place, experts ascending
    tiles [1 + max_tiles, 4] int32   row 0: number of tiles, number of scheduled rows; then for each tile
                                     expert, first place, end place, unused
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from dispatch.config import Problem

_SLOTS_PER_STEP = 1024
_TILES_PER_STEP = 64
# The least number of bins that the histogram is given.
_LEAST_BINS = 64


@dataclass(frozen=True)
class Schedule:
    """Buffers of a schedule, see the module's text.

    Attributes:
        order: [slots] int32.
        tiles: [1 + max_tiles, 4] int32.
        max_tiles: row tiles that there can be, whatever the ids are.
    """

    order: torch.Tensor
    tiles: torch.Tensor
    max_tiles: int


def max_row_tiles(slots: int, experts: int, block_m: int) -> int:
    """The most row tiles that ``slots`` can need over ``experts``: each expert rounds up on its own.

    The sum of ceil(c / block_m) over experts with c > 0 is at most (slots + n (block_m - 1)) / block_m, and n
    is at most the smaller of slots and experts.
    """
    return (slots + min(slots, experts) * (block_m - 1)) // block_m


def build_schedule(
    topk_ids: torch.Tensor, out_of_range: torch.Tensor, problem: Problem, block_m: int
) -> Schedule:
    """Sort the slots of ``topk_ids`` [M, k] (contiguous, int32 or int64) by expert.

    Ids under 0 are left out. Ids of E and above are left out, and ``out_of_range`` [1] int32 is set to 1.
    """
    order = torch.empty(problem.slots, dtype=torch.int32, device=topk_ids.device)
    max_tiles = max_row_tiles(problem.slots, problem.experts, block_m)
    tiles = torch.empty((1 + max_tiles, 4), dtype=torch.int32, device=topk_ids.device)
    # The interpreter pays by the program, so there one holds all experts.
    per_program = triton.next_power_of_2(problem.experts) if problem.device.interpreted else 1
    schedule_kernel[(triton.cdiv(problem.experts, per_program),)](
        topk_ids,
        order,
        tiles,
        out_of_range,
        problem.slots,
        problem.experts,
        BLOCK_M=block_m,
        EXPERTS=per_program,
        BINS=max(_LEAST_BINS, triton.next_power_of_2(problem.experts + 1)),
        STEP=_SLOTS_PER_STEP,
        TILE_STEP=_TILES_PER_STEP,
    )
    return Schedule(order, tiles, max_tiles)


@triton.jit(do_not_specialize=["slots", "experts"])
def schedule_kernel(
    ids_ptr,
    order_ptr,
    tiles_ptr,
    out_of_range_ptr,
    slots,
    experts,
    BLOCK_M: tl.constexpr,
    EXPERTS: tl.constexpr,
    BINS: tl.constexpr,
    STEP: tl.constexpr,
    TILE_STEP: tl.constexpr,
):
    """Program p places the slots and tiles of EXPERTS experts from p * EXPERTS on; grid (E / EXPERTS,)."""
    own = tl.program_id(0) * EXPERTS + tl.arange(0, EXPERTS)
    offsets = tl.arange(0, STEP)
    bins = tl.arange(0, BINS)

    counts = tl.full((BINS,), 0, dtype=tl.int32)
    too_large = 0
    for start in range(0, slots, STEP):
        ids = tl.load(ids_ptr + start + offsets, mask=offsets < slots - start, other=-1)
        usable = (ids >= 0) & (ids < experts)
        # Bin E takes what is left out; it is never counted as an expert.
        counts += tl.histogram(tl.where(usable, ids, experts).to(tl.int32), BINS)
        too_large = tl.maximum(too_large, tl.max((ids >= experts).to(tl.int32), axis=0))
    counts = tl.where(bins < experts, counts, 0)
    tiles = (counts + BLOCK_M - 1) // BLOCK_M

    if tl.program_id(0) == 0:
        tl.store(tiles_ptr, tl.sum(tiles, axis=0))
        tl.store(tiles_ptr + 1, tl.sum(counts, axis=0))
        if too_large > 0:
            tl.store(out_of_range_ptr, 1)

    before = bins[None, :] < own[:, None]
    first_row = tl.sum(tl.where(before, counts[None, :], 0), axis=1)
    first_tile = tl.sum(tl.where(before, tiles[None, :], 0), axis=1)
    own_rows = tl.sum(tl.where(bins[None, :] == own[:, None], counts[None, :], 0), axis=1)
    end_row = (first_row + own_rows)[:, None]
    own_tiles = (own_rows + BLOCK_M - 1) // BLOCK_M
    for start in range(0, tl.max(own_tiles, axis=0), TILE_STEP):
        tile = (start + tl.arange(0, TILE_STEP))[None, :]
        entry = tiles_ptr + (1 + first_tile[:, None] + tile).to(tl.int64) * 4
        row = first_row[:, None] + tile * BLOCK_M
        exists = tile < own_tiles[:, None]
        tl.store(entry, own[:, None] + tl.full((1, TILE_STEP), 0, dtype=tl.int32), mask=exists)
        tl.store(entry + 1, row, mask=exists)
        tl.store(entry + 2, tl.minimum(row + BLOCK_M, end_row), mask=exists)

    place = first_row
    # The last program may hold numbers of E and above; an id that is out of range must not match them.
    number = tl.where(own < experts, own, -2)[:, None]
    for start in range(0, slots, STEP):
        ids = tl.load(ids_ptr + start + offsets, mask=offsets < slots - start, other=-1)
        match = (ids[None, :] == number).to(tl.int32)
        rank = tl.cumsum(match, axis=1) - 1
        slot = (start + offsets)[None, :] + tl.full((EXPERTS, 1), 0, dtype=tl.int32)
        tl.store(order_ptr + place[:, None] + rank, slot, mask=match > 0)
        place += tl.sum(match, axis=1)
