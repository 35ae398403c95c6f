"""triton_kernels' ``matmul`` for bf16, called as SGLang 0.5.20's runner for it does (read from triton_kernels 3.7.1).

The weights lie as SGLang stores them for it, channels innermost. Gate and up channels alternate, which its fused
activations want, so that SiLU runs in the first product's epilogue; its own SwiGLU is another function (up + 1).
Routing comes from ids: sorting by expert is torch's, the schedule its own.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import importlib

import torch
import triton
import triton.language as tl

from producers.contestants.base import Contestant, Inputs, Launch
from producers.device import interpreted
from producers.workloads import Cell


@triton.jit
def silu_times_up(input):  # type: ignore[no-untyped-def] # noqa: A002 - triton_kernels calls it so
    """SiLU of the even columns times the odd ones, [M, 2 N] to [M, N]."""
    gate, up = tl.split(tl.reshape(input, (input.shape[0], input.shape[1] // 2, 2)))
    gate = gate.to(tl.float32)
    return gate / (1.0 + tl.exp(-gate)) * up.to(tl.float32)


class TritonKernels(Contestant):
    """``triton_kernels.matmul.matmul`` twice, with a gathering first and a scattering second product."""

    name = "triton_kernels"
    house = "triton_kernels"
    package = "triton_kernels"

    def __init__(self) -> None:
        self._matmul = importlib.import_module("triton_kernels.matmul")
        self._tensor = importlib.import_module("triton_kernels.tensor")

    def supports(self, cell: Cell) -> str | None:
        """bf16 on a CUDA device."""
        if interpreted():
            return "triton_kernels needs a CUDA device"
        if cell.precision != "bf16":
            return "triton_kernels has no int8 product, and SGLang's runner for it takes bf16 only"
        return None

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """Copies of the weights, [E, H, 2 I] with gate and up channels in turn and [E, I, H]; not timed."""
        experts, rows, hidden = inputs.w13.shape
        halves = inputs.w13.view(experts, 2, rows // 2, hidden)
        w13 = halves.permute(0, 3, 2, 1).reshape(experts, hidden, rows)
        w2 = inputs.w2.transpose(1, 2).contiguous()
        specs = self._matmul.FnSpecs("silu_times_up", silu_times_up, (), reduction_n=2)
        activation = self._matmul.FusedActivation(specs, ())
        numbers = torch.arange(experts + 1, dtype=torch.int32, device=inputs.x.device)
        matmul, make_metadata = self._matmul.matmul, self._tensor.make_ragged_tensor_metadata

        def launch() -> torch.Tensor:
            sorted_ids, order = inputs.topk_ids.flatten().sort(stable=True)
            starts = torch.searchsorted(sorted_ids, numbers, out_int32=True)
            metadata = make_metadata(starts[1:] - starts[:-1], order.numel())
            scatter = order.int()
            activated = matmul(
                inputs.x,
                w13,
                None,
                a_ragged_metadata=metadata,
                gather_indx=scatter // cell.top_k,
                fused_activation=activation,
            )
            slots = matmul(
                activated,
                w2,
                None,
                a_ragged_metadata=metadata,
                scatter_indx=scatter,
                gammas=inputs.topk_weights.flatten()[order],
            )
            out: torch.Tensor = slots.view(cell.tokens, cell.top_k, -1).sum(dim=1)
            return out

        return launch
