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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from producers.contestants.base import Inputs, Launch, config_text
from producers.contestants.tunable import Chip, Chosen, Config, Tunable, read_json, write_json
from producers.workloads import Cell

# Of a program's block; TOKENS counts tokens or (token, slot) rows.
_BLOCKS = {"TOKENS": 8, "ROWS": 32, "COLUMNS": 64}


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


def _quantised(values: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 values and float32 scales of the rows of a contiguous [R, C] tensor, ``tokens`` rows a program."""
    rows, columns = values.shape
    quantised = torch.empty(rows, columns, dtype=torch.int8, device=values.device)
    scales = torch.empty(rows, dtype=torch.float32, device=values.device)
    block = triton.next_power_of_2(columns)
    grid = (triton.cdiv(rows, tokens),)
    _quantise_rows[grid](values, quantised, scales, rows, columns, tokens, block, num_warps=8)
    return quantised, scales


class Example(Tunable):
    """Two kernels: gate, up and SiLU for each (token, slot), then down with the sum over a token's slots."""

    name = "example"
    house = "example"
    package = "producers.contestants.example"

    def facts(self) -> dict[str, Any]:
        """Nothing is chosen by shape or device."""
        return {"config_source": "default", "config_json": config_text(_BLOCKS)}

    def default(self, cell: Cell) -> Config:  # noqa: ARG002 - the same for every cell
        """The blocks of :meth:`prepare`."""
        return dict(_BLOCKS)

    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:  # noqa: ARG002 - registers are what counts
        """Blocks from half to twice, as far as a row of weights has that much."""
        scales = {"TOKENS": (4, 8, 16), "ROWS": (16, 32, 64), "COLUMNS": (32, 64, 128)}
        most = {"ROWS": min(cell.intermediate, cell.hidden), "COLUMNS": min(cell.intermediate, cell.hidden)}
        return [
            {**_BLOCKS, name: value}
            for name, scale in scales.items()
            for value in scale
            if value != _BLOCKS[name] and value <= most.get(name, value)
        ]

    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """The same steps again, from the best."""
        return [
            {**config, name: value}
            for candidate in self.candidates(cell, chip)
            for name, value in candidate.items()
            if value != _BLOCKS[name]
        ]

    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """``FOLDER/example.json``: cell without its routing to blocks; nothing reads it yet."""
        path = folder / "example.json"
        document = read_json(path)
        for each in chosen:
            cell = each.cell
            document[f"{cell.workload}/{cell.precision}/{cell.tokens}"] = each.config
        return [write_json(path, {**document, "triton_version": triton_version})] if chosen else []

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """See the class; ids are taken as valid."""
        return self.prepare_with(cell, inputs, _BLOCKS)

    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """The same kernels with other blocks."""
        tokens, rows_each, columns = config["TOKENS"], config["ROWS"], config["COLUMNS"]
        int8, quantise = cell.precision.startswith("int8"), cell.precision == "int8_w8a8"
        slots, hidden, intermediate = cell.tokens * cell.top_k, cell.hidden, cell.intermediate
        up_grid = (triton.cdiv(slots, tokens), triton.cdiv(intermediate, rows_each))
        down_grid = (triton.cdiv(cell.tokens, tokens), triton.cdiv(hidden, rows_each))
        ids, router = inputs.topk_ids, inputs.topk_weights
        # A pointer that is not read still has to be one.
        w13_scale = router if inputs.w13_scale is None else inputs.w13_scale
        w2_scale = router if inputs.w2_scale is None else inputs.w2_scale

        def launch() -> torch.Tensor:
            x, x_scale = _quantised(inputs.x, tokens) if quantise else (inputs.x, router)
            activated = torch.empty(slots, intermediate, dtype=torch.float32, device=x.device)
            _gate_up[up_grid](
                x, x_scale, inputs.w13, w13_scale, ids, activated, slots, hidden, intermediate, cell.top_k,
                int8, quantise, tokens, rows_each, columns, num_warps=8,
            )  # fmt: skip
            rows, rows_scale = _quantised(activated, tokens) if quantise else (activated, router)
            out = torch.empty_like(inputs.x)
            _down[down_grid](
                rows, rows_scale, inputs.w2, w2_scale, ids, router, out, cell.tokens, hidden, intermediate,
                cell.top_k, int8, quantise, tokens, rows_each, columns, num_warps=8,
            )  # fmt: skip
            return out

        return launch
