"""vLLM's fused MoE as a user of its functional interface calls it (read from vLLM 0.29.0).

The served path (``TritonExperts``) runs the same Triton kernels and the same align and sum operations.
"""

from __future__ import annotations

import importlib
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from producers.contestants.base import Contestant, Inputs, Launch, column, config_text
from producers.device import interpreted
from producers.workloads import Cell

_FUSED_MOE = "vllm.model_executor.layers.fused_moe"


class Vllm(Contestant):
    """``vllm.model_executor.layers.fused_moe.fused_experts`` as shipped."""

    name = "vllm"
    house = "vllm"
    package = "vllm"

    def __init__(self) -> None:
        config = importlib.import_module("vllm.config")
        platforms = importlib.import_module("vllm.platforms")
        self._package = importlib.import_module(_FUSED_MOE)
        self._module = importlib.import_module(f"{_FUSED_MOE}.fused_moe")
        self._quantisation = importlib.import_module(f"{_FUSED_MOE}.config")
        if not interpreted():
            platforms.current_platform.import_kernels()
        self._context = ExitStack()  # held as long as the process: every call runs inside this configuration
        self._context.enter_context(config.set_current_vllm_config(config.VllmConfig()))
        self._facts: dict[str, Any] = {}

    def supports(self, cell: Cell) -> str | None:  # noqa: ARG002 - every cell of a CUDA device
        """All four precisions on a CUDA device."""
        return "vLLM's kernels need a CUDA device" if interpreted() else None

    def facts(self) -> dict[str, Any]:
        """The configuration that vLLM's own lookup gives for the cell."""
        return self._facts

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """int8 through vLLM's own quantisation configurations; per-token activations, per-channel weights."""
        quantisation = None
        if cell.precision == "int8_w8a8":
            quantisation = self._quantisation.int8_w8a8_moe_quant_config(
                w1_scale=column(inputs.w13_scale),
                w2_scale=column(inputs.w2_scale),
                a1_scale=None,
                a2_scale=None,
                per_act_token_quant=True,
            )
        elif cell.precision == "int8_w8a16":
            quantisation = self._quantisation.int8_w8a16_moe_quant_config(
                w1_scale=inputs.w13_scale, w2_scale=inputs.w2_scale, block_shape=None
            )
        self._facts = self._lookup(cell, inputs)
        fused_experts = self._package.fused_experts

        def launch() -> torch.Tensor:
            out: torch.Tensor = fused_experts(
                inputs.x,
                inputs.w13,
                inputs.w2,
                inputs.topk_weights,
                inputs.topk_ids,
                quant_config=quantisation,
            )
            return out

        return launch

    def _lookup(self, cell: Cell, inputs: Inputs) -> dict[str, Any]:
        """What ``fused_experts`` will find: the file's dtype key exists for w8a16 only."""
        key = "int8_w8a16" if cell.precision == "int8_w8a16" else None
        shapes = (tuple(inputs.w13.shape), tuple(inputs.w2.shape))
        config = self._module.try_get_optimal_moe_config(*shapes, cell.top_k, key, cell.tokens)
        found = self._module.get_moe_configs(cell.experts, cell.intermediate, key)
        facts: dict[str, Any] = {
            "config_source": "exact" if found else "default",
            "config_json": config_text(config),
        }
        if found:
            facts["tuned_triton_version"] = self._tuned_version(cell, key)
        return facts

    def _tuned_version(self, cell: Cell, key: str | None) -> str | None:
        """The Triton version that the tuned file names; vLLM drops it from what it returns."""
        name = self._module.get_config_file_name(cell.experts, cell.intermediate, key, None)
        folders = [Path(str(self._module.__file__)).parent / "configs"]
        if own := os.environ.get("VLLM_TUNED_CONFIG_FOLDER"):
            folders.insert(0, Path(own))
        for path in (folder / name for folder in folders):
            if path.is_file():
                version = json.loads(path.read_text(encoding="utf-8")).get("triton_version")
                return None if version is None else str(version)
        return None
