"""Torch on the device: sort by expert, ``grouped_mm`` twice, a gathered sum, no host synchronisation."""

from __future__ import annotations

import torch
from torch.nn.functional import grouped_mm

from producers.contestants.base import Contestant, Inputs, Launch, silu_and_mul
from producers.device import interpreted
from producers.workloads import Cell


class TorchGrouped(Contestant):
    """``torch.nn.functional.grouped_mm`` over slots sorted by expert; bf16 and fp16."""

    name = "torch-grouped"
    house = "torch"
    package = "torch"

    def source_sha256(self) -> str | None:
        """None: torch's version names its build."""
        return None

    def supports(self, cell: Cell) -> str | None:
        """Sixteen-bit weights on a CUDA device."""
        if interpreted():
            return "native torch and Triton's interpreter do not race each other"
        if cell.precision.startswith("int8"):
            return "torch has no grouped int8 product"
        return None

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """See :func:`grouped_moe`."""
        experts = torch.arange(cell.experts, dtype=torch.int32, device=inputs.x.device)
        return lambda: grouped_moe(inputs, experts)


def grouped_moe(inputs: Inputs, experts: torch.Tensor) -> torch.Tensor:
    """The MoE layer on tensors of any device, [M, H] in x's type.

    Args:
        inputs: the cell's tensors, ids valid.
        experts: [E] int32, 0 to E - 1.
    """
    tokens, top_k = inputs.topk_ids.shape
    sorted_ids, order = inputs.topk_ids.flatten().sort(stable=True)
    ends = torch.searchsorted(sorted_ids, experts, right=True, out_int32=True)
    gate_up = grouped_mm(inputs.x[order // top_k], inputs.w13.transpose(1, 2), offs=ends)
    product = grouped_mm(silu_and_mul(gate_up), inputs.w2.transpose(1, 2), offs=ends)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=order.device)
    # Gathered back to token order and summed over the slots: no atomics, so the result never varies.
    slots = product[place].view(tokens, top_k, -1)
    return (slots * inputs.topk_weights[..., None]).sum(dim=1).to(inputs.x.dtype)
