"""The pipeline that ``naive`` and ``persistent`` share; they differ in how tiles meet programs.

    [quantise x]  schedule  gate+up+SiLU  [quantise its result]  down x router weight  sum over choices

Quantisation is launched in int8_w8a8 only: 4 launches, or 6.
"""

# mypy: disable-error-code="no-untyped-call, import-untyped"
from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import triton

from dispatch import tables
from dispatch.config import MoeConfig, Problem, TileConfig
from dispatch.kernels.call import Call
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.rows import combine, quantize_rows
from dispatch.kernels.schedule import Schedule, build_schedule


@dataclass(frozen=True)
class Launch:
    """One matrix product: the tiles there can be, the kernel's arguments, and how to compile it."""

    row_tiles: int
    channel_tiles: int
    tile: TileConfig
    arguments: tuple[Any, ...]
    constants: dict[str, Any]


class TwoProducts:
    """A family of two tiled products over one schedule."""

    name: str

    def refuses(self, problem: Problem) -> str | None:  # noqa: ARG002 - others look at the problem
        """Nothing: these are the families that take what others refuse."""
        return None

    def preference(self, problem: Problem) -> float:
        """See :class:`dispatch.kernels.family.Family`."""
        raise NotImplementedError

    def configure(self, problem: Problem) -> MoeConfig:
        """The measured tiles of this family if its device has some for the shape, else the model's."""
        return tables.configure(problem, self.name)

    def launches(self, problem: Problem) -> int:
        """Four, and two more where activations are quantised."""
        return 6 if problem.precision.int8_activations else 4

    @abstractmethod
    def launch_gate_up(self, launch: Launch, problem: Problem) -> None:
        """Launch the first product."""

    @abstractmethod
    def launch_down(self, launch: Launch, problem: Problem) -> None:
        """Launch the second product."""

    def run(
        self,
        tensors: MoeTensors,
        problem: Problem,
        config: MoeConfig,
        call: Call,  # noqa: ARG002 - its launches are Triton's own, and nothing is replayed
    ) -> None:
        """See :class:`dispatch.kernels.family.Family`."""
        interpret = problem.device.interpreted
        x, x_scale = tensors.x, None
        if problem.precision.int8_activations:
            x, x_scale = quantize_rows(x, interpret)
        schedule = build_schedule(tensors.topk_ids, tensors.out_of_range, problem, config.block_m)
        # Rows that no tile reaches, and rows of dropped ids, stay as empty() left them; nothing reads them.
        activated = x.new_empty((problem.slots, problem.intermediate), dtype=tensors.x.dtype)
        self.launch_gate_up(
            _gate_up(tensors, x, x_scale, activated, schedule, problem, config.gate_up), problem
        )
        activated_scale = None
        if problem.precision.int8_activations:
            activated, activated_scale = quantize_rows(activated, interpret, schedule)
        down = x.new_empty((problem.slots, problem.hidden), dtype=tensors.x.dtype)
        self.launch_down(
            _down(tensors, activated, activated_scale, down, schedule, problem, config.down), problem
        )
        combine(down, tensors.topk_ids, tensors.out, problem, interpret)


def _gate_up(
    tensors: MoeTensors,
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    activated: torch.Tensor,
    schedule: Schedule,
    problem: Problem,
    tile: TileConfig,
) -> Launch:
    return Launch(
        schedule.max_tiles,
        triton.cdiv(problem.intermediate, tile.block_n),
        tile,
        (
            *(x, x.stride(0), x_scale),
            *(tensors.w13, tensors.w13.stride(0), tensors.w13.stride(1), tensors.w13_scale),
            *(activated, schedule.order, schedule.tiles, problem.hidden, problem.intermediate),
        ),
        {"TOP_K": problem.top_k, **_constants(tile, problem.hidden, problem)},
    )


def _down(
    tensors: MoeTensors,
    activated: torch.Tensor,
    activated_scale: torch.Tensor | None,
    down: torch.Tensor,
    schedule: Schedule,
    problem: Problem,
    tile: TileConfig,
) -> Launch:
    return Launch(
        schedule.max_tiles,
        triton.cdiv(problem.hidden, tile.block_n),
        tile,
        (
            *(activated, activated_scale),
            *(tensors.w2, tensors.w2.stride(0), tensors.w2.stride(1), tensors.w2_scale),
            *(
                tensors.topk_weights,
                down,
                schedule.order,
                schedule.tiles,
                problem.hidden,
                problem.intermediate,
            ),
        ),
        _constants(tile, problem.intermediate, problem),
    )


def _constants(tile: TileConfig, reduction: int, problem: Problem) -> dict[str, Any]:
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
        "GROUP_M": tile.group_m,
        "SWAP_AB": tile.swap_ab,
        "WHOLE_K": reduction % tile.block_k == 0,
        "INTERPRET": problem.device.interpreted,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
    }
