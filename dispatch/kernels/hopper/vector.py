"""``vector``: a single token. Rows of weights go straight into registers and meet no matrix unit.

    gate + up + SiLU    down, summed over the token's choices

Two launches, no plan, no separate sum. A program takes a handful of rows of weights whole, so all its bytes
are in flight at once. The second kernel owns output channels of a token and reads the same rows of all its
experts, so the sum over choices happens in registers, in the order of the choices.

int8 weights are multiplied four at a time (dp4a) with the limbs of x, which each program makes for itself.
"""

# ruff: noqa: PLR2004 - Triton spells compile-time arguments in capitals, and a kernel has many
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
from dispatch.kernels.hopper.launch import interpreted_blocks, overlap, prefetch, refuses, signal, wait
from dispatch.kernels.hopper.limbs import dot4, limb_scale, magnitude, to_limbs
from dispatch.kernels.hopper.plan import limbs_of
from dispatch.kernels.hopper.pointwise import silu
from dispatch.kernels.tile import narrow, widen
from dispatch.limits import INT32_MAX

_MOST_TOKENS = 1
_MOST_STEP = 2048
_LEAST_ROWS = 16  # channels of H and I are multiples of this many
_MOST_GRID_ROWS = 65535  # CUDA's limit of a grid's second dimension


class Vector:
    """No matrix unit; for calls of one token."""

    name = "vector"

    def refuses(self, problem: Problem) -> str | None:
        """Another device, sizes that are no multiple of the rows of a program, or far too many tokens."""
        values = problem.slots * problem.intermediate
        if problem.tokens > _MOST_GRID_ROWS or values > INT32_MAX:
            return f"{problem.tokens} tokens are past its indices, and it is made for one."
        return refuses(problem, _LEAST_ROWS, _LEAST_ROWS)

    def preference(self, problem: Problem) -> float:
        """Positive for a single token: with two, the matrix unit shares what experts they have in common."""
        if problem.device.interpreted:
            return -3.0
        return 3.0 if problem.tokens <= _MOST_TOKENS else -3.0

    def configure(self, problem: Problem) -> MoeConfig:
        """Measured rows a program, else the model's."""
        return tables.configure(problem, self.name, model)

    def launches(self, problem: Problem) -> int:  # noqa: ARG002
        """Two."""
        return 2

    def run(self, tensors: MoeTensors, problem: Problem, config: MoeConfig, call: Call) -> None:
        """See :class:`dispatch.kernels.family.Family`."""
        call.kernels(lambda: _kernels(tensors, problem, config))
        x, out = tensors.x, tensors.out
        activated = call.empty((problem.slots, problem.intermediate), torch.float32)
        call.launch(
            "gate_up",
            (problem.slots * (problem.intermediate // config.gate_up.block_n), 1, 1),
            *(x, x.stride(0), tensors.w13, tensors.w13.stride(0), tensors.w13_scale),
            *(tensors.topk_ids, tensors.out_of_range, activated),
        )
        call.launch(
            "down",
            (problem.hidden // config.down.block_n, problem.tokens, 1),
            *(activated, tensors.w2, tensors.w2.stride(0), tensors.w2_scale),
            *(tensors.topk_ids, tensors.topk_weights, out, out.stride(0)),
        )


def _kernels(tensors: MoeTensors, problem: Problem, config: MoeConfig) -> Kernels:
    """Both kernels, to be compiled for these rows a program."""
    gate_up, down = config.gate_up, config.down
    limbs, interpret = limbs_of(problem), problem.device.interpreted
    sizes = {
        "HIDDEN": problem.hidden,
        "INTERMEDIATE": problem.intermediate,
        "TOP_K": problem.top_k,
    }
    return {
        "gate_up": Kernel(
            gate_up_kernel,
            {
                "EXPERTS": problem.experts,
                "W_ROW_STRIDE": tensors.w13.stride(1),
                **sizes,
                "BLOCK_N": gate_up.block_n,
                "BLOCK_K": gate_up.block_k,
                "BLOCK_H": triton.next_power_of_2(problem.hidden),
                "LIMBS": limbs,
                "INTERPRET": interpret,
            },
            num_warps=gate_up.num_warps,
        ),
        "down": Kernel(
            down_kernel,
            {
                "EXPERTS": problem.experts,
                "W_ROW_STRIDE": tensors.w2.stride(1),
                **sizes,
                "BLOCK_N": down.block_n,
                "BLOCK_K": down.block_k,
                "LIMBS": limbs,
                "INTERPRET": interpret,
            },
            num_warps=down.num_warps,
            **overlap(problem.device),
        ),
    }


def model(problem: Problem) -> MoeConfig:
    """Rows a program: its weights are in flight together, some 32 KB of each of the two matrices."""
    limbs = limbs_of(problem)
    whole = min(_MOST_STEP, triton.next_power_of_2(problem.intermediate))
    if limbs == 0:
        gate_up = TileConfig(16, 16, min(_MOST_STEP // 2, triton.next_power_of_2(problem.hidden)), 8, 1)
        down = TileConfig(16, 4, whole, 4, 1)
    else:
        gate_up = TileConfig(16, 4, min(_MOST_STEP, triton.next_power_of_2(problem.hidden)), 4, 1)
        down = TileConfig(16, 8, whole, 4, 1)
    if problem.device.interpreted:
        hidden, intermediate = interpreted_blocks(problem)
        gate_up, down = replace(gate_up, block_n=intermediate), replace(down, block_n=hidden)
        return MoeConfig(gate_up, down, "interpreter")
    return MoeConfig(gate_up, down, "model", f"{problem.tokens} tokens")


@triton.jit
def gate_up_kernel(
    x_ptr,  # [M, H]
    x_stride,
    w_ptr,  # [E, 2 I, H]
    w_expert_stride,
    w_scale_ptr,  # [E, 2 I], or None
    ids_ptr,
    flag_ptr,
    activated_ptr,  # [slots, I] float32
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_H: tl.constexpr,
    LIMBS: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """``silu(gate) * up`` of one slot and BLOCK_N channels; grid (slots * I / BLOCK_N,), channels fastest."""
    CHANNEL_TILES: tl.constexpr = INTERMEDIATE // BLOCK_N
    slot = tl.program_id(0) // CHANNEL_TILES
    signal(INTERPRET)
    expert = tl.load(ids_ptr + slot)
    if expert >= EXPERTS:
        tl.store(flag_ptr, 1)
        return
    if expert < 0:
        return
    channels = tl.program_id(0) % CHANNEL_TILES * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    w_ptrs = w_ptr + expert.to(tl.int64) * w_expert_stride + channels[:, None] * W_ROW_STRIDE + steps[None, :]
    x_row = x_ptr + (slot // TOP_K).to(tl.int64) * x_stride
    # The first weights are asked for before x is looked at.
    inside = steps < HIDDEN
    w_gate = tl.load(w_ptrs, mask=inside[None, :], other=0)
    w_up = tl.load(w_ptrs + INTERMEDIATE * W_ROW_STRIDE, mask=inside[None, :], other=0)
    scale = 1.0
    inverse = 1.0
    if LIMBS > 0:
        every = tl.arange(0, BLOCK_H)
        whole = tl.load(x_row + every, mask=every < HIDDEN, other=0.0)
        size, finite = magnitude(widen(whole, INTERPRET).to(tl.float32))
        scale, inverse = limb_scale(tl.max(size, 0), tl.min(finite, 0), LIMBS)
    gate = tl.zeros((BLOCK_N,), tl.float32)
    up = tl.zeros((BLOCK_N,), tl.float32)
    for k in tl.static_range(0, HIDDEN, BLOCK_K):
        inside = k + steps < HIDDEN
        if k > 0:
            w_gate = tl.load(w_ptrs + k, mask=inside[None, :], other=0)
            w_up = tl.load(w_ptrs + INTERMEDIATE * W_ROW_STRIDE + k, mask=inside[None, :], other=0)
        x = widen(tl.load(x_row + k + steps, mask=inside, other=0.0), INTERPRET).to(tl.float32)
        gate += row_products(w_gate, x[None, :], inverse, LIMBS, INTERPRET)
        up += row_products(w_up, x[None, :], inverse, LIMBS, INTERPRET)
    if LIMBS > 0:
        scale_ptrs = w_scale_ptr + expert.to(tl.int64) * (2 * INTERMEDIATE) + channels
        gate *= tl.load(scale_ptrs) * scale
        up *= tl.load(scale_ptrs + INTERMEDIATE) * scale
    tl.store(activated_ptr + slot * INTERMEDIATE + channels, silu(gate) * up)


@triton.jit
def row_products(weights, row, inverse, LIMBS: tl.constexpr, INTERPRET: tl.constexpr):
    """Dot products along the last axis, float32; int8 weights meet the limbs of ``row * inverse``."""
    last: tl.constexpr = len(weights.shape) - 1
    if LIMBS == 0:
        return tl.sum(widen(weights, INTERPRET).to(tl.float32) * row, last)
    high, low = to_limbs(row, inverse, LIMBS)
    total = tl.sum(dot4(weights, tl.broadcast_to(high, weights.shape), INTERPRET), last).to(tl.float32)
    if LIMBS == 2:
        below = tl.sum(dot4(weights, tl.broadcast_to(low, weights.shape), INTERPRET), last)
        total = total * 128.0 + below.to(tl.float32)
    return total


@triton.jit
def down_kernel(
    activated_ptr,  # [slots, I] float32
    w_ptr,  # [E, H, I]
    w_expert_stride,
    w_scale_ptr,  # [E, H], or None
    ids_ptr,
    router_ptr,  # [slots] float32
    out_ptr,  # [M, H]
    out_stride,
    EXPERTS: tl.constexpr,
    W_ROW_STRIDE: tl.constexpr,
    HIDDEN: tl.constexpr,
    INTERMEDIATE: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LIMBS: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """Output of one token and BLOCK_N channels, choice after choice; grid (H / BLOCK_N, M).

    Its weights are asked into L2 before the first kernel's end is awaited: memory never idles in between.
    """
    token = tl.program_id(1)
    channels = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    row_offsets = channels * W_ROW_STRIDE
    if W_ROW_STRIDE == INTERMEDIATE:
        # Rows beside each other: the program's weights of a choice are one piece of memory.
        piece: tl.constexpr = BLOCK_N * INTERMEDIATE * (w_ptr.dtype.element_ty.primitive_bitwidth // 8)
        start = tl.program_id(0) * (BLOCK_N * INTERMEDIATE)
        for choice in tl.static_range(TOP_K):
            expert = tl.load(ids_ptr + token * TOP_K + choice)
            if (expert >= 0) & (expert < EXPERTS):
                prefetch(w_ptr + expert.to(tl.int64) * w_expert_stride + start, piece, INTERPRET)
    wait(INTERPRET)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for choice in tl.static_range(TOP_K):
        slot = token * TOP_K + choice
        expert = tl.load(ids_ptr + slot)
        used = (expert >= 0) & (expert < EXPERTS)
        expert = tl.where(used, expert, 0).to(tl.int64)
        w_ptrs = w_ptr + expert * w_expert_stride + row_offsets[:, None] + steps[None, :]
        a_ptrs = activated_ptr + slot * INTERMEDIATE + steps
        scale = 1.0
        inverse = 1.0
        if LIMBS > 0:
            size = tl.zeros((BLOCK_K,), tl.float32)
            finite = size.to(tl.int32) + 1
            for k in tl.static_range(0, INTERMEDIATE, BLOCK_K):
                part, good = magnitude(tl.load(a_ptrs + k, mask=used & (k + steps < INTERMEDIATE), other=0.0))
                size = tl.maximum(size, part)
                finite = tl.minimum(finite, good)
            scale, inverse = limb_scale(tl.max(size, 0), tl.min(finite, 0), LIMBS)
        down = tl.zeros((BLOCK_N,), tl.float32)
        for k in tl.static_range(0, INTERMEDIATE, BLOCK_K):
            inside = used & (k + steps < INTERMEDIATE)
            w = tl.load(w_ptrs + k, mask=inside[None, :], other=0)
            a = tl.load(a_ptrs + k, mask=inside, other=0.0)
            down += row_products(w, a[None, :], inverse, LIMBS, INTERPRET)
        if LIMBS > 0:
            down *= tl.load(w_scale_ptr + expert * HIDDEN + channels) * scale
        # A choice that is not used adds 0, whatever its scale is.
        total += tl.where(used, down * tl.load(router_ptr + slot), 0.0)
    result = narrow(total, out_ptr.dtype.element_ty, INTERPRET)
    tl.store(out_ptr + token.to(tl.int64) * out_stride + channels, result)


FAMILY = Vector()
