"""The kernels that touch each row once: int8 quantisation, and the sum over a token's choices."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from dispatch.config import Problem
from dispatch.kernels.schedule import Schedule
from dispatch.kernels.tile import narrow, widen
from dispatch.limits import check_grid

_MOST_COLUMNS = 4096
# Rows of a program: enough threads share one row on a device; the interpreter pays by the program.
_ROWS = 1
_INTERPRETED_ROWS = 64


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
    per_program = _INTERPRETED_ROWS if interpret else _ROWS
    quantize_kernel[(check_grid(triton.cdiv(rows, per_program), "quantize"),)](
        values,
        values.stride(0),
        quantized,
        scales,
        None if schedule is None else schedule.tiles,
        rows,
        columns,
        ROWS=per_program,
        BLOCK=min(_MOST_COLUMNS, triton.next_power_of_2(columns)),
        INTERPRET=interpret,
    )
    return quantized, scales


@triton.jit(do_not_specialize=["rows"])
def quantize_kernel(
    values_ptr,
    values_stride,
    quantized_ptr,
    scales_ptr,
    tiles_ptr,
    rows,
    columns,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """ROWS rows a program; grid (R / ROWS,). Of a schedule's rows only those that it reaches."""
    if tiles_ptr is not None:
        rows = tl.load(tiles_ptr + 1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    reached = (row < rows)[:, None]
    row = row.to(tl.int64)
    values_ptrs = values_ptr + row[:, None] * values_stride
    offsets = tl.arange(0, BLOCK)[None, :]
    largest = tl.full((ROWS,), 0, dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        inside = reached & (offsets < columns - start)
        value = widen(tl.load(values_ptrs + start + offsets, mask=inside, other=0.0), INTERPRET)
        # A comparison with NaN is false, so NaN becomes infinity, which no later maximum can lose.
        magnitude = tl.where(tl.abs(value) < float("inf"), tl.abs(value), float("inf"))
        largest = tl.maximum(largest, tl.max(magnitude, axis=1))
    scale = tl.where(
        largest < float("inf"), tl.div_rn(largest, tl.full((ROWS,), 127, tl.float32)), float("nan")
    )
    tl.store(scales_ptr + row, scale, mask=row < rows)
    # Where the scale is 0 or NaN every value becomes 0; dividing by 1 then keeps NaN out of the conversion.
    usable = (scale > 0)[:, None]
    divisor = tl.where(usable, scale[:, None], 1.0)
    for start in range(0, columns, BLOCK):
        inside = reached & (offsets < columns - start)
        value = widen(tl.load(values_ptrs + start + offsets, mask=inside, other=0.0), INTERPRET)
        quotient = tl.div_rn(tl.where(usable, value, 0.0), tl.broadcast_to(divisor, (ROWS, BLOCK)))
        # Half away from zero; the conversion cuts towards zero. A subnormal scale can push past 127.
        rounded = tl.clamp(quotient + tl.where(quotient >= 0, 0.5, -0.5), -127.0, 127.0)
        tl.store(quantized_ptr + row[:, None] * columns + start + offsets, rounded.to(tl.int8), mask=inside)


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
    per_program = _INTERPRETED_ROWS if interpret else _ROWS
    block = min(1024, triton.next_power_of_2(problem.hidden))
    column_blocks = triton.cdiv(problem.hidden, block)
    programs = triton.cdiv(problem.tokens, per_program) * column_blocks
    combine_kernel[(check_grid(programs, "combine"),)](
        down,
        topk_ids,
        out,
        out.stride(0),
        problem.tokens,
        problem.hidden,
        problem.experts,
        column_blocks,
        TOP_K=problem.top_k,
        ROWS=per_program,
        BLOCK=block,
        INTERPRET=interpret,
    )


@triton.jit(do_not_specialize=["tokens", "experts", "column_blocks"])
def combine_kernel(
    down_ptr,
    ids_ptr,
    out_ptr,
    out_stride,
    tokens,
    hidden,
    experts,
    column_blocks,
    TOP_K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """BLOCK columns of ROWS tokens a program; grid (M / ROWS * column_blocks,)."""
    token = tl.program_id(0) // column_blocks * ROWS + tl.arange(0, ROWS)
    exists = token < tokens
    token = token.to(tl.int64)
    columns = (tl.program_id(0) % column_blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
    total = tl.full((ROWS, BLOCK), 0, dtype=tl.float32)
    for choice in range(0, TOP_K):
        slot = token * TOP_K + choice
        expert = tl.load(ids_ptr + slot, mask=exists, other=-1)
        used = ((expert >= 0) & (expert < experts))[:, None]
        value = tl.load(
            down_ptr + slot[:, None] * hidden + columns, mask=used & (columns < hidden), other=0.0
        )
        total += widen(value, INTERPRET)
    out = narrow(total, out_ptr.dtype.element_ty, INTERPRET)
    tl.store(out_ptr + token[:, None] * out_stride + columns, out, mask=exists[:, None] & (columns < hidden))
