"""The kernels that touch each row once: int8 quantisation, and the sum over a token's choices."""

# ruff: noqa: N803, PLR0913 - Triton spells compile-time arguments in capitals, and a kernel has many
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.schedule import Schedule
from dispatch.kernels.tile import narrow, widen
from dispatch.limits import check_grid

_MOST_COLUMNS = 4096


def quantize_rows(
    values: torch.Tensor, interpret: bool, schedule: Schedule | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bitwise :func:`dispatch.quantize.quantize_per_token` on the device.

    Args:
        values: [R, K], rows any stride apart, last axis dense.
        interpret: whether Triton interprets.
        schedule: leave rows alone that it does not reach.

    Returns:
        int8 [R, K] and float32 scales [R].
    """
    rows, columns = values.shape
    quantized = torch.empty((rows, columns), dtype=torch.int8, device=values.device)
    scales = torch.empty(rows, dtype=torch.float32, device=values.device)
    quantize_kernel[(check_grid(rows, "quantize"),)](
        values,
        values.stride(0),
        quantized,
        scales,
        None if schedule is None else schedule.tiles,
        columns,
        BLOCK=min(_MOST_COLUMNS, triton.next_power_of_2(columns)),
        INTERPRET=interpret,
    )
    return quantized, scales


@triton.jit
def quantize_kernel(
    values_ptr,
    values_stride,
    quantized_ptr,
    scales_ptr,
    tiles_ptr,
    columns,
    BLOCK: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """One row a program; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    if tiles_ptr is not None:
        if row >= tl.load(tiles_ptr + 1):
            return
    offsets = tl.arange(0, BLOCK)
    largest = 0.0
    finite = 1
    for start in range(0, columns, BLOCK):
        inside = offsets < columns - start
        value = tl.load(values_ptr + row * values_stride + start + offsets, mask=inside, other=0.0)
        magnitude = tl.abs(widen(value, INTERPRET).to(tl.float32))
        # A comparison with NaN is false, so this catches NaN and infinity alike.
        finite = tl.minimum(finite, tl.min((magnitude < float("inf")).to(tl.int32), axis=0))
        largest = tl.maximum(largest, tl.max(magnitude, axis=0))
    scale = tl.where(finite > 0, tl.div_rn(largest, 127.0), float("nan"))
    tl.store(scales_ptr + row, scale)
    # Where the scale is 0 or NaN every value becomes 0; dividing by 1 then avoids NaN in the conversion.
    usable = scale > 0
    divisor = tl.where(usable, scale, 1.0)
    for start in range(0, columns, BLOCK):
        inside = offsets < columns - start
        value = tl.load(values_ptr + row * values_stride + start + offsets, mask=inside, other=0.0)
        quotient = tl.div_rn(tl.where(usable, widen(value, INTERPRET).to(tl.float32), 0.0), divisor)
        # Half away from zero; the conversion cuts towards zero. A subnormal scale can push past 127.
        rounded = tl.clamp(quotient + tl.where(quotient >= 0, 0.5, -0.5), -127.0, 127.0)
        tl.store(quantized_ptr + row * columns + start + offsets, rounded.to(tl.int8), mask=inside)


def combine(
    down: torch.Tensor, topk_ids: torch.Tensor, out: torch.Tensor, problem: Problem, interpret: bool
) -> None:
    """``out[t] = sum_j down[t * k + j]`` over the choices with a valid id, always in the order of j.

    Args:
        down: [slots, H] contiguous; rows of invalid ids are never read.
        topk_ids: [M, k] contiguous, int32 or int64.
        out: [M, H], rows any stride apart, last axis dense.
        problem: the call.
        interpret: whether Triton interprets.
    """
    block = min(1024, triton.next_power_of_2(problem.hidden))
    column_blocks = triton.cdiv(problem.hidden, block)
    combine_kernel[(check_grid(problem.tokens * column_blocks, "combine"),)](
        down,
        topk_ids,
        out,
        out.stride(0),
        problem.hidden,
        problem.experts,
        column_blocks,
        TOP_K=problem.top_k,
        BLOCK=block,
        INTERPRET=interpret,
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
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in tl.range(0, TOP_K):
        expert = tl.load(ids_ptr + token * TOP_K + choice)
        used = (expert >= 0) & (expert < experts)
        value = tl.load(down_ptr + (token * TOP_K + choice) * hidden + columns, mask=inside & used, other=0.0)
        total += widen(value, INTERPRET).to(tl.float32)
    tl.store(out_ptr + token * out_stride + columns, narrow(total, out_ptr.dtype.element_ty, INTERPRET), mask=inside)
