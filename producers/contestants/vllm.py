"""vLLM's fused MoE as a user of its functional interface calls it (read from vLLM 0.29.0).

The served path (``TritonExperts``) runs the same Triton kernels and the same align and sum operations.

Tuned configurations are files in vLLM's own format, found through its own ``VLLM_TUNED_CONFIG_FOLDER``. Its
file name has no word for w8a8, which reads the file of bf16: each precision has a folder of its own here.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from producers.contestants import tiles
from producers.contestants.base import Inputs, Launch, column, config_text
from producers.contestants.tunable import Chip, Chosen, Config, Tunable, read_json, restored, write_json
from producers.contestants.tuned import Tables
from producers.device import interpreted
from producers.workloads import Cell

_FUSED_MOE = "vllm.model_executor.layers.fused_moe"
_FOLDER_VARIABLE = "VLLM_TUNED_CONFIG_FOLDER"


class Vllm(Tunable):
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
        self._facts = self._lookup(cell)
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

    def default(self, cell: Cell) -> Config:
        """What vLLM's own lookup finds: a shipped file, or its formula."""
        shapes = (
            (cell.experts, 2 * cell.intermediate, cell.hidden),
            (cell.experts, cell.hidden, cell.intermediate),
        )
        found = self._module.try_get_optimal_moe_config(*shapes, cell.top_k, _dtype_key(cell), cell.tokens)
        return dict(found)

    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:
        """See :mod:`producers.contestants.tiles`; both products run with one configuration."""
        return tiles.candidates(cell, chip)

    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """One number a step up or down."""
        return tiles.neighbours(config, cell, chip)

    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """Every call inside vLLM's ``override_config``."""
        launch = self.prepare(cell, inputs)

        def overridden() -> torch.Tensor:
            with restored(self._package.override_config(config)):
                return launch()

        return overridden

    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """``FOLDER/PRECISION/E=..,N=..,device_name=...json``: token count to configuration."""
        written = set()
        for each in chosen:
            path = folder / each.cell.precision / self._file_name(each.cell)
            before = read_json(path)
            entries = before if before.pop("triton_version", None) == triton_version else {}
            entries[str(each.cell.tokens)] = each.config
            ordered = dict(sorted(entries.items(), key=lambda entry: int(entry[0])))
            written.add(write_json(path, {"triton_version": triton_version, **ordered}))
        return sorted(written)

    def _file_name(self, cell: Cell) -> str:
        name = self._module.get_config_file_name(cell.experts, cell.intermediate, _dtype_key(cell), None)
        return str(name)

    def _lookup(self, cell: Cell) -> dict[str, Any]:
        """What ``fused_experts`` will find."""
        key = _dtype_key(cell)
        found = self._module.get_moe_configs(cell.experts, cell.intermediate, key)
        facts: dict[str, Any] = {
            "config_source": "exact" if found else "default",
            "config_json": config_text(self.default(cell)),
        }
        if found:
            facts["tuned_triton_version"] = self._tuned_version(cell)
        return facts

    def _tuned_version(self, cell: Cell) -> str | None:
        """The Triton version that the tuned file names; vLLM drops it from what it returns."""
        name = self._file_name(cell)
        folders = [Path(str(self._module.__file__)).parent / "configs"]
        if own := os.environ.get(_FOLDER_VARIABLE):
            folders.insert(0, Path(own))
        for path in (folder / name for folder in folders):
            if path.is_file():
                version = json.loads(path.read_text(encoding="utf-8")).get("triton_version")
                return None if version is None else str(version)
        return None


class VllmTuned(Vllm):
    """vLLM with configurations that ``python -m producers.tune`` found.

    Args:
        tables: folder that has a folder of vLLM's files for each precision; the one of this package if None.
    """

    name = "vllm-tuned"

    def __init__(self, tables: str | None = None) -> None:
        super().__init__()
        self._tables = Tables("vllm", tables)

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """As shipped, but that vLLM's lookup comes upon the tuned file first."""
        path = self._tables.find(Path(cell.precision) / self._file_name(cell), cell)
        os.environ[_FOLDER_VARIABLE] = str(path.parent)
        self._module.get_moe_configs.cache_clear()
        return super().prepare(cell, inputs)


def _dtype_key(cell: Cell) -> str | None:
    """What vLLM's file names call a precision: there is a word for w8a16 only."""
    return "int8_w8a16" if cell.precision == "int8_w8a16" else None
