"""Our own library, one contestant for each of its kernels."""

from __future__ import annotations

import importlib
from dataclasses import asdict
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
        self._dispatch = importlib.import_module("dispatch")
        self._kernel = kernel
        self._asked: dict[str, Any] = {}

    def facts(self) -> dict[str, Any]:
        """Kernel and tiles that the library chose for the cell, and where they came from."""
        plan = self._dispatch.explain(**self._asked)
        config = {
            "kernel": plan.kernel,
            "gate_up": asdict(plan.config.gate_up),
            "down": asdict(plan.config.down),
        }
        return {
            "config_source": plan.config.source,
            "config_json": config_text(config),
            "tuned_triton_version": plan.config.tuned_triton_version,
            "launches": plan.launches,
        }

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """A plain call, nothing preallocated, as a user makes it."""
        options = {"kernel": self._kernel, "precision": cell.precision}
        sizes = ("tokens", "top_k", "experts", "hidden", "intermediate")
        self._asked = {**{name: getattr(cell, name) for name in sizes}, **options, "device": inputs.x.device}
        scales = {"w13_scale": inputs.w13_scale, "w2_scale": inputs.w2_scale}
        fused_moe = self._dispatch.fused_moe

        def launch() -> torch.Tensor:
            out: torch.Tensor = fused_moe(
                inputs.x, inputs.w13, inputs.w2, inputs.topk_weights, inputs.topk_ids, **options, **scales
            )
            return out

        return launch
