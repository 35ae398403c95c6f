"""The sum over a token's choices, as the last of a chain of overlapped launches."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.call import Call
from dispatch.kernels.compiled import Kernel
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.hopper.launch import overlap, wait
from dispatch.kernels.tile import narrow, widen
from dispatch.limits import check_grid

_MOST_COLUMNS = 1024


def combine(down: torch.Tensor, tensors: MoeTensors, problem: Problem, call: Call) -> None:
    """``out[t] = sum_j down[t * k + j]`` over the choices with a valid id, always in the order of j."""
    block = min(_MOST_COLUMNS, triton.next_power_of_2(problem.hidden))
    column_blocks = triton.cdiv(problem.hidden, block)
    constants = {"TOP_K": problem.top_k, "BLOCK": block, "INTERPRET": problem.device.interpreted}
    call.kernel("combine", lambda: Kernel(combine_kernel, constants, num_warps=4, **overlap(problem.device)))
    call.launch(
        "combine",
        (check_grid(problem.tokens * column_blocks, "combine"), 1, 1),
        *(down, tensors.topk_ids, tensors.out, tensors.out.stride(0)),
        *(problem.hidden, problem.experts, column_blocks),
    )


@triton.jit(do_not_specialize=["experts", "column_blocks"])
def combine_kernel(
    down_ptr,
    ids_ptr,
    out_ptr,
    out_stride,
    hidden,
    experts,
    column_blocks,
    TOP_K: tl.constexpr,
    BLOCK: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """BLOCK columns of one token a program; grid (M * column_blocks,)."""
    token = (tl.program_id(0) // column_blocks).to(tl.int64)
    columns = tl.program_id(0) % column_blocks * BLOCK + tl.arange(0, BLOCK)
    inside = columns < hidden
    wait(INTERPRET)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in tl.static_range(TOP_K):
        expert = tl.load(ids_ptr + token * TOP_K + choice)
        used = (expert >= 0) & (expert < experts)
        value = tl.load(down_ptr + (token * TOP_K + choice) * hidden + columns, mask=inside & used, other=0.0)
        total += widen(value, INTERPRET).to(tl.float32)
    tl.store(
        out_ptr + token * out_stride + columns,
        narrow(total, out_ptr.dtype.element_ty, INTERPRET),
        mask=inside,
    )
