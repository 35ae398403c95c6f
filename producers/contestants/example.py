"""The documented example: a small Triton MoE of its own, raced as the rival house on a CPU.

It shares no code with ``dispatch`` and aims at being read, not at speed: matrix-vector products for each
(token, slot) row, a few rows a program, every precision. It runs on CUDA and under
Triton's interpreter. There are no tensor-core products in it: the interpreter computes garbage for
``tl.dot`` on bfloat16 operands (Triton 3.7.1), while float32 sums of products are right everywhere.
"""

# Triton kernels: arguments by position, constants in capitals, no Python types.
# ruff: noqa: N803
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from producers.contestants.base import Contestant, Inputs, Launch, config_text
from producers.workloads import Cell

_TOKENS, _ROWS, _COLUMNS = 8, 32, 64  # of a program's block; tokens or (token, slot) rows


@triton.jit
def _quantise_rows(values, quantised, scales, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows of ``values`` to int8: scale = absmax / 127, rounded half up."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = row[:, None] * columns + column[None, :]
    value = tl.load(values + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-30) / 127.0
    rounded = tl.floor(value / scale[:, None] + 0.5)
    tl.store(quantised + at, rounded.to(tl.int8), mask=inside)
    tl.store(scales + row, scale, mask=row < rows)


@triton.jit
def _gate_up(
    x, x_scale, w13, w13_scale, ids, activated, slots, hidden, intermediate, top_k,
    INT8: tl.constexpr, QUANTISED: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """activated[slot, i] = silu(gate) * up for a block of slots and a block of i."""
    slot = (tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_slots = slot < slots
    token = slot // top_k
    expert = tl.load(ids + slot, mask=in_slots, other=0).to(tl.int64)
    stored = in_slots[:, None] & (row < intermediate)[None, :]
    gate_row = expert[:, None] * (2 * intermediate) + row[None, :]
    gate = tl.zeros([SLOTS, ROWS], dtype=tl.float32)
    up = tl.zeros([SLOTS, ROWS], dtype=tl.float32)
    for first in range(0, hidden, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        in_vector = in_slots[:, None] & (column < hidden)[None, :]
        vector = tl.load(x + token[:, None] * hidden + column[None, :], mask=in_vector, other=0)
        vector = vector.to(tl.float32)[:, None, :]
        inside = stored[:, :, None] & (column < hidden)[None, None, :]
        at = w13 + gate_row[:, :, None] * hidden + column[None, None, :]
        gate += tl.sum(tl.load(at, mask=inside, other=0).to(tl.float32) * vector, axis=2)
        at += intermediate * hidden
        up += tl.sum(tl.load(at, mask=inside, other=0).to(tl.float32) * vector, axis=2)
    if INT8:
        gate *= tl.load(w13_scale + gate_row, mask=stored, other=0.0)
        up *= tl.load(w13_scale + gate_row + intermediate, mask=stored, other=0.0)
    if QUANTISED:
        scale = tl.load(x_scale + token, mask=in_slots, other=0.0)[:, None]
        gate *= scale
        up *= scale
    out = activated + slot[:, None] * intermediate + row[None, :]
    tl.store(out, gate / (1.0 + tl.exp(-gate)) * up, mask=stored)


@triton.jit
def _down(
    activated, activated_scale, w2, w2_scale, ids, router, out, tokens, hidden, intermediate,
    TOP_K: tl.constexpr, INT8: tl.constexpr, QUANTISED: tl.constexpr,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out[token, h] for a block of tokens and of h: slots are added in order, so the result never varies."""
    token = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_tokens = token < tokens
    stored = in_tokens[:, None] & (row < hidden)[None, :]
    total = tl.zeros([TOKENS, ROWS], dtype=tl.float32)
    for number in range(TOP_K):
        slot = token * TOP_K + number
        expert = tl.load(ids + slot, mask=in_tokens, other=0).to(tl.int64)
        weight = tl.load(router + slot, mask=in_tokens, other=0.0)
        if QUANTISED:
            weight *= tl.load(activated_scale + slot, mask=in_tokens, other=0.0)
        w2_row = expert[:, None] * hidden + row[None, :]
        product = tl.zeros([TOKENS, ROWS], dtype=tl.float32)
        for first in range(0, intermediate, COLUMNS):
            column = first + tl.arange(0, COLUMNS)
            in_vector = in_tokens[:, None] & (column < intermediate)[None, :]
            vector_at = activated + slot[:, None] * intermediate + column[None, :]
            vector = tl.load(vector_at, mask=in_vector, other=0)
            inside = stored[:, :, None] & (column < intermediate)[None, None, :]
            at = w2 + w2_row[:, :, None] * intermediate + column[None, None, :]
            matrix = tl.load(at, mask=inside, other=0).to(tl.float32)
            product += tl.sum(matrix * vector.to(tl.float32)[:, None, :], axis=2)
        if INT8:
            product *= tl.load(w2_scale + w2_row, mask=stored, other=0.0)
        total += product * weight[:, None]
    at_out = out + token[:, None] * hidden + row[None, :]
    tl.store(at_out, total.to(out.dtype.element_ty), mask=stored)


def _quantised(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 values and float32 scales of the rows of a contiguous [R, C] tensor."""
    rows, columns = values.shape
    quantised = torch.empty(rows, columns, dtype=torch.int8, device=values.device)
    scales = torch.empty(rows, dtype=torch.float32, device=values.device)
    block = triton.next_power_of_2(columns)
    grid = (triton.cdiv(rows, _TOKENS),)
    _quantise_rows[grid](values, quantised, scales, rows, columns, _TOKENS, block, num_warps=8)
    return quantised, scales


class Example(Contestant):
    """Two kernels: gate, up and SiLU for each (token, slot), then down with the sum over a token's slots."""

    name = "example"
    house = "example"
    package = "producers.contestants.example"

    def facts(self) -> dict[str, Any]:
        """Nothing is chosen by shape or device."""
        blocks = {"TOKENS": _TOKENS, "ROWS": _ROWS, "COLUMNS": _COLUMNS}
        return {"config_source": "default", "config_json": config_text(blocks)}

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """See the class; ids are taken as valid."""
        int8, quantise = cell.precision.startswith("int8"), cell.precision == "int8_w8a8"
        slots, hidden, intermediate = cell.tokens * cell.top_k, cell.hidden, cell.intermediate
        up_grid = (triton.cdiv(slots, _TOKENS), triton.cdiv(intermediate, _ROWS))
        down_grid = (triton.cdiv(cell.tokens, _TOKENS), triton.cdiv(hidden, _ROWS))
        ids, router = inputs.topk_ids, inputs.topk_weights
        # A pointer that is not read still has to be one.
        w13_scale = router if inputs.w13_scale is None else inputs.w13_scale
        w2_scale = router if inputs.w2_scale is None else inputs.w2_scale

        def launch() -> torch.Tensor:
            x, x_scale = _quantised(inputs.x) if quantise else (inputs.x, router)
            activated = torch.empty(slots, intermediate, dtype=torch.float32, device=x.device)
            _gate_up[up_grid](
                x, x_scale, inputs.w13, w13_scale, ids, activated, slots, hidden, intermediate, cell.top_k,
                int8, quantise, _TOKENS, _ROWS, _COLUMNS, num_warps=8,
            )  # fmt: skip
            rows, rows_scale = _quantised(activated) if quantise else (activated, router)
            out = torch.empty_like(inputs.x)
            _down[down_grid](
                rows, rows_scale, inputs.w2, w2_scale, ids, router, out, cell.tokens, hidden, intermediate,
                cell.top_k, int8, quantise, _TOKENS, _ROWS, _COLUMNS, num_warps=8,
            )  # fmt: skip
            return out

        return launch
