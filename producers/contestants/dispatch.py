"""Our own library, one contestant for each of its kernels."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from producers.contestants.base import Contestant, Inputs, Launch, config_text
from producers.workloads import Cell


class Dispatch(Contestant):
    """``dispatch.fused_moe`` with a kernel: ``auto``, ``naive`` or ``persistent``."""

    name = "dispatch"
    house = "dispatch"
    package = "dispatch"

    def __init__(self, kernel: str = "auto") -> None:
        self._fused_moe = importlib.import_module("dispatch").fused_moe
        self._kernel = kernel

    def facts(self) -> dict[str, Any]:
        """The kernel that was asked for."""
        return {"config_source": "default", "config_json": config_text({"kernel": self._kernel})}

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """A plain call, nothing preallocated, as a user makes it."""

        def launch() -> torch.Tensor:
            out: torch.Tensor = self._fused_moe(
                inputs.x,
                inputs.w13,
                inputs.w2,
                inputs.topk_weights,
                inputs.topk_ids,
                kernel=self._kernel,
                precision=cell.precision,
                w13_scale=inputs.w13_scale,
                w2_scale=inputs.w2_scale,
            )
            return out

        return launch
