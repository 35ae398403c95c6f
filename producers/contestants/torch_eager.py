"""The loop over experts that stock models run: what one gets without any fused kernel. Informational."""

from __future__ import annotations

import torch

from producers.contestants.base import Contestant, Inputs, Launch, silu_and_mul
from producers.device import interpreted
from producers.workloads import Cell


class TorchEager(Contestant):
    """One pair of products for each expert that has tokens; the host reads which ones have."""

    name = "torch-eager"
    house = "torch"
    package = "torch"
    capturable = False

    def source_sha256(self) -> str | None:
        """None: torch's version names its build."""
        return None

    def supports(self, cell: Cell) -> str | None:
        """Sixteen-bit weights on a CUDA device."""
        if interpreted():
            return "native torch and Triton's interpreter do not race each other"
        if cell.precision.startswith("int8"):
            return "the stock loop has no int8 weights"
        return None

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:  # noqa: ARG002 - the shape is in the tensors
        """See :func:`expert_loop`."""
        return lambda: expert_loop(inputs)


def expert_loop(inputs: Inputs) -> torch.Tensor:
    """The MoE layer on tensors of any device, [M, H] in x's type, accumulated in float32 expert by expert."""
    out = torch.zeros(inputs.x.shape, dtype=torch.float32, device=inputs.x.device)
    for expert in torch.unique(inputs.topk_ids).tolist():
        rows, slots = torch.where(inputs.topk_ids == expert)
        gate_up = inputs.x[rows] @ inputs.w13[expert].T
        product = silu_and_mul(gate_up) @ inputs.w2[expert].T
        out.index_add_(0, rows, product * inputs.topk_weights[rows, slots, None])
    return out.to(inputs.x.dtype)
