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
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from dataclasses import replace

import torch

from dispatch import tables
from dispatch.config import MoeConfig, Problem, TileConfig
from dispatch.kernels.call import Call
from dispatch.kernels.compiled import Kernel, Kernels
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.hopper.combine import combine
from dispatch.kernels.hopper.launch import interpreted_blocks, overlap, refuses
from dispatch.kernels.hopper.plan import build_plan, limbs_of
from dispatch.kernels.hopper.stream_products import down_kernel, gate_up_kernel

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


FAMILY = Stream()
