"""``persistent``: a fixed grid, each program walks tiles until none is left.

It saves the start of a program per tile and the last partly filled wave. Which program computes a tile
changes nothing in its result, which is bitwise that of ``naive`` with the same tiles.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.tile import down_tile, gate_up_tile, tile_coordinates
from dispatch.kernels.two_products import Launch, TwoProducts

# Two resident programs hide each other's prologue and epilogue; more would need smaller tiles.
_PROGRAMS_PER_SM = 2
# Under the interpreter, few enough that programs walk several tiles.
_INTERPRETED_PROGRAMS = 3
# From here on tiles are large and reuse weights; below, a program's start is hidden by the others.
_ROWS_PER_EXPERT = 96


class Persistent(TwoProducts):
    """A fixed grid that walks the tiles."""

    name = "persistent"

    def preference(self, problem: Problem) -> float:
        """Positive where an expert has rows for several large tiles."""
        return 1.0 if problem.rows_per_expert > _ROWS_PER_EXPERT else -1.0

    def launch_gate_up(self, launch: Launch, problem: Problem) -> None:
        """Grid (programs that the device holds,)."""
        gate_up_kernel[_grid(launch, problem)](*launch.arguments, **launch.constants)

    def launch_down(self, launch: Launch, problem: Problem) -> None:
        """Grid (programs that the device holds,)."""
        down_kernel[_grid(launch, problem)](*launch.arguments, **launch.constants)


def _grid(launch: Launch, problem: Problem) -> tuple[int]:
    resident = _PROGRAMS_PER_SM * problem.device.sm_count
    if problem.device.interpreted:
        resident = _INTERPRETED_PROGRAMS
    return (min(resident, launch.row_tiles * launch.channel_tiles),)


@triton.jit
def gate_up_kernel(
    x_ptr,
    x_stride,
    x_scale_ptr,
    w_ptr,
    w_expert_stride,
    w_row_stride,
    w_scale_ptr,
    activated_ptr,
    order_ptr,
    tiles_ptr,
    hidden,
    intermediate,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SWAP_AB: tl.constexpr,
    WHOLE_K: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """See :func:`dispatch.kernels.tile.gate_up_tile`."""
    row_tiles = tl.load(tiles_ptr)
    channel_tiles = (intermediate + BLOCK_N - 1) // BLOCK_N
    for index in range(tl.program_id(0), row_tiles * channel_tiles, tl.num_programs(0)):
        row_tile, channel_tile = tile_coordinates(index, row_tiles, channel_tiles, GROUP_M)
        entry = tiles_ptr + (1 + row_tile).to(tl.int64) * 4
        gate_up_tile(
            x_ptr,
            x_stride,
            x_scale_ptr,
            w_ptr,
            w_expert_stride,
            w_row_stride,
            w_scale_ptr,
            activated_ptr,
            order_ptr,
            tl.load(entry),
            tl.load(entry + 1),
            tl.load(entry + 2),
            channel_tile,
            hidden,
            intermediate,
            TOP_K,
            BLOCK_M,
            BLOCK_N,
            BLOCK_K,
            SWAP_AB,
            WHOLE_K,
            INTERPRET,
        )


@triton.jit
def down_kernel(
    activated_ptr,
    activated_scale_ptr,
    w_ptr,
    w_expert_stride,
    w_row_stride,
    w_scale_ptr,
    router_ptr,
    down_ptr,
    order_ptr,
    tiles_ptr,
    hidden,
    intermediate,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SWAP_AB: tl.constexpr,
    WHOLE_K: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """See :func:`dispatch.kernels.tile.down_tile`."""
    row_tiles = tl.load(tiles_ptr)
    channel_tiles = (hidden + BLOCK_N - 1) // BLOCK_N
    for index in range(tl.program_id(0), row_tiles * channel_tiles, tl.num_programs(0)):
        row_tile, channel_tile = tile_coordinates(index, row_tiles, channel_tiles, GROUP_M)
        entry = tiles_ptr + (1 + row_tile).to(tl.int64) * 4
        down_tile(
            activated_ptr,
            activated_scale_ptr,
            w_ptr,
            w_expert_stride,
            w_row_stride,
            w_scale_ptr,
            router_ptr,
            down_ptr,
            order_ptr,
            tl.load(entry),
            tl.load(entry + 1),
            tl.load(entry + 2),
            channel_tile,
            hidden,
            intermediate,
            BLOCK_M,
            BLOCK_N,
            BLOCK_K,
            SWAP_AB,
            WHOLE_K,
            INTERPRET,
        )


FAMILY = Persistent()
