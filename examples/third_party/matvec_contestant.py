"""A third-party contestant: one batched product for each of a token's experts, in plain torch."""

import torch

from producers.contestants.base import Contestant, Inputs, Launch
from producers.workloads import Cell


class Matvec(Contestant):
    """Gathers the weights of every (token, slot) row; simple, and heavy on memory."""

    name = "matvec"
    house = "matvec"
    package = "matvec_contestant"

    def supports(self, cell: Cell) -> str | None:
        """Sixteen-bit weights."""
        return "only bf16 and fp16 are implemented" if cell.precision.startswith("int8") else None

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:  # noqa: ARG002
        """Nothing to prepare: the launch is a plain function of the inputs."""

        def launch() -> torch.Tensor:
            ids = inputs.topk_ids.long()
            gate_up = torch.einsum("mkih,mh->mki", inputs.w13[ids], inputs.x)
            gate, up = gate_up.chunk(2, dim=-1)
            product = torch.einsum("mkhi,mki->mkh", inputs.w2[ids], torch.nn.functional.silu(gate) * up)
            return (product * inputs.topk_weights[..., None]).sum(dim=1).to(inputs.x.dtype)

        return launch
