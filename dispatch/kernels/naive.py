"""``naive``: one program a tile.

The grid holds every tile that there can be, whatever the ids are; programs past the last tile end at once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.tile import down_tile, gate_up_tile, tile_coordinates
from dispatch.kernels.two_products import Launch, TwoProducts
from dispatch.limits import check_grid


class Naive(TwoProducts):
    """One program a tile."""

    name = "naive"

    def preference(self, problem: Problem) -> float:  # noqa: ARG002 - others look at the problem
        """The one to beat: 0."""
        return 0.0

    def launch_gate_up(self, launch: Launch, problem: Problem) -> None:  # noqa: ARG002 - others look at the problem
        """Grid (row tiles x channel tiles,)."""
        gate_up_kernel[_grid(launch)](*launch.arguments, **launch.constants)

    def launch_down(self, launch: Launch, problem: Problem) -> None:  # noqa: ARG002 - others look at the problem
        """Grid (row tiles x channel tiles,)."""
        down_kernel[_grid(launch)](*launch.arguments, **launch.constants)


def _grid(launch: Launch) -> tuple[int]:
    return (check_grid(launch.row_tiles * launch.channel_tiles, "naive"),)


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
    if tl.program_id(0) >= row_tiles * channel_tiles:
        return
    row_tile, channel_tile = tile_coordinates(tl.program_id(0), row_tiles, channel_tiles, GROUP_M)
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
    if tl.program_id(0) >= row_tiles * channel_tiles:
        return
    row_tile, channel_tile = tile_coordinates(tl.program_id(0), row_tiles, channel_tiles, GROUP_M)
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


FAMILY = Naive()
