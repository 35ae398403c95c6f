"""SGLang's fused MoE, called outside its server (read from SGLang 0.5.20).

The functional interface still wants what a server sets up: published server arguments and a
tensor-parallel group, here of one process.

Tuned configurations are files in SGLang's own format, found through its own ``SGLANG_MOE_CONFIG_DIR``: one
for the first product and one, ``_down``, for the second, which alone can ask for tensor descriptors there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from producers.contestants import tiles
from producers.contestants.base import Inputs, Launch, column, config_text
from producers.contestants.tunable import Chip, Chosen, Config, Tunable, read_json, restored, write_json
from producers.contestants.tuned import Tables
from producers.device import interpreted
from producers.workloads import Cell, activation_dtype

_TRITON_UTILS = "sglang.srt.layers.moe.moe_runner.triton_utils"
_FOLDER_VARIABLE = "SGLANG_MOE_CONFIG_DIR"
# What Triton takes where SGLang's formula names no warps and stages.
_TRITON_DEFAULTS = {"num_warps": 4, "num_stages": 3}
# Second products with tensor descriptors that a search tries: (BLOCK_SIZE_N, BLOCK_SIZE_K, warps, stages).
_DOWN = ((64, 128, 4, 4), (128, 64, 4, 4), (128, 64, 8, 4), (128, 128, 8, 3), (256, 64, 8, 4))


class Sglang(Tunable):
    """``sglang.srt.layers.moe.moe_runner.triton_utils.fused_experts`` as shipped, never in place."""

    name = "sglang"
    house = "sglang"
    package = "sglang"

    def __init__(self) -> None:
        self._package = importlib.import_module(_TRITON_UTILS)
        self._configs = importlib.import_module(f"{_TRITON_UTILS}.fused_moe_triton_config")
        self._fused_moe = importlib.import_module(f"{_TRITON_UTILS}.fused_moe")
        self._runner = importlib.import_module("sglang.srt.layers.moe.moe_runner")
        if not interpreted():
            _stand_in_for_a_server()
        self._facts: dict[str, Any] = {}

    def supports(self, cell: Cell) -> str | None:  # noqa: ARG002 - every cell of a CUDA device
        """All four precisions on a CUDA device."""
        return "SGLang's kernels need a CUDA device" if interpreted() else None

    def facts(self) -> dict[str, Any]:
        """The configuration that SGLang's own lookup gives for the cell."""
        return self._facts

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """int8 with per-channel weight scales; w8a8 with per-token activation scales, as its server does."""
        config = self._runner.MoeRunnerConfig(
            num_experts=cell.experts,
            num_local_experts=cell.experts,  # all of them here: no filtering of foreign experts
            hidden_size=cell.hidden,
            intermediate_size_per_partition=cell.intermediate,
            top_k=cell.top_k,
            inplace=False,  # the default would overwrite x
        )
        w8a8, w8a16 = cell.precision == "int8_w8a8", cell.precision == "int8_w8a16"
        options = {
            "use_int8_w8a8": w8a8,
            "use_int8_w8a16": w8a16,
            "per_channel_quant": w8a8,
            "w1_scale": column(inputs.w13_scale),
            "w2_scale": column(inputs.w2_scale),
        }
        # A plain tuple of (weights, ids, router logits); the logits are not read.
        routing = (inputs.topk_weights, inputs.topk_ids, None)
        self._facts = self._lookup(cell)
        fused_experts = self._package.fused_experts

        def launch() -> torch.Tensor:
            out: torch.Tensor = fused_experts(inputs.x, inputs.w13, inputs.w2, routing, config, **options)
            return out

        return launch

    def default(self, cell: Cell) -> Config:
        """What SGLang's own lookup finds: a file, or its formula; ``down`` where a file has another."""
        up, (down, _) = self._configs.try_get_optimal_moe_config(
            (cell.experts, 2 * cell.intermediate, cell.hidden),
            (cell.experts, cell.hidden, cell.intermediate),
            cell.top_k,
            self._dtype_key(cell),
            cell.tokens,
            per_channel_quant=_per_channel(cell),
            return_down_config=True,
        )
        return dict(up) if down in (None, up) else {**up, "down": down}

    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:
        """See :mod:`producers.contestants.tiles`; both products with one configuration at first."""
        return tiles.candidates(cell, chip)

    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """One number a step up or down, and second products of their own."""
        up = {**_TRITON_DEFAULTS, **config}
        up.pop("down", None)
        names = ("BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages")
        downs = [{**up, **dict(zip(names, down, strict=True)), "USE_TMA": True} for down in _DOWN]
        with_down = [{**up, "down": down} for down in downs if tiles.legal(down, cell, chip)]
        return [*with_down, *tiles.neighbours(up, cell, chip)]

    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """Every call inside SGLang's ``override_config``.

        That has no word for the second product: one of its own takes the place of the lookup of both files.
        """
        launch = self.prepare(cell, inputs)
        up = {name: value for name, value in config.items() if name != "down"}
        down = config.get("down")

        def lookup(*_: object, **__: object) -> tuple[Config, tuple[Config, None]]:
            return dict(up), (dict(down or up), None)

        def override() -> AbstractContextManager[object]:
            if down is None:
                return restored(self._package.override_config(up))
            return mock.patch.object(self._fused_moe, "try_get_optimal_moe_config", lookup)

        def overridden() -> torch.Tensor:
            with override():
                return launch()

        return overridden

    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """``FOLDER/configs/triton_X_Y_Z/E=..,N=..,device_name=...json`` and ``..._down.json``.

        SGLang takes the entry nearest to a token count from each file by itself, so both have the same counts.
        """
        version = folder / "configs" / f"triton_{triton_version.replace('.', '_')}"
        written = set()
        for each in chosen:
            up = {name: value for name, value in each.config.items() if name != "down"}
            for is_down, config in ((False, up), (True, each.config.get("down", up))):
                path = version / self._file_name(each.cell, down=is_down)
                entries = {**read_json(path), str(each.cell.tokens): config}
                ordered = sorted(entries.items(), key=lambda entry: int(entry[0]))
                written.add(write_json(path, dict(ordered)))
        return sorted(written)

    def _dtype_key(self, cell: Cell) -> str | None:
        """SGLang's word for a precision in file names; None for 16-bit weights."""
        key = self._configs.get_config_dtype_str(
            getattr(torch, activation_dtype(cell.precision)),
            use_int8_w8a8=cell.precision == "int8_w8a8",
            use_int8_w8a16=cell.precision == "int8_w8a16",
        )
        return None if key is None else str(key)

    def _file_name(self, cell: Cell, *, down: bool = False) -> str:
        name = self._configs.get_config_file_name(
            cell.experts,
            cell.intermediate,
            self._dtype_key(cell),
            [0, 0],
            per_channel_quant=_per_channel(cell),
            down_moe=down,
        )
        return str(name)

    def _lookup(self, cell: Cell) -> dict[str, Any]:
        """What ``fused_experts`` will find: exact, from another Triton version's folder, or the default."""
        found = self._configs.get_moe_configs(
            cell.experts,
            cell.intermediate,
            self._dtype_key(cell),
            0,
            0,
            per_channel_quant=_per_channel(cell),
            down_moe=False,
        )
        facts = {"config_source": "default", "config_json": config_text(self.default(cell))}
        if found:
            facts.update(self._tuned(self._file_name(cell)))
        return facts

    def _tuned(self, name: str) -> dict[str, str]:
        """Source and Triton version of a tuned file; SGLang keeps one folder a version, newest first."""
        import triton  # noqa: PLC0415 - SGLang brings it

        shipped = Path(str(self._configs.__file__)).parent
        folder = Path(os.environ.get(_FOLDER_VARIABLE, shipped)) / "configs"
        held = [
            path.parent.name.removeprefix("triton_").replace("_", ".") for path in folder.glob(f"*/{name}")
        ]
        running = triton.__version__
        if running in held:
            return {"config_source": "exact", "tuned_triton_version": running}
        newest = max(held, key=lambda version: [int(part) for part in version.split(".")], default="unknown")
        return {"config_source": "fallback", "tuned_triton_version": newest}


class SglangTuned(Sglang):
    """SGLang with configurations that ``python -m producers.tune`` found.

    Args:
        tables: a folder as ``SGLANG_MOE_CONFIG_DIR`` names one; the one of this package if None.
    """

    name = "sglang-tuned"

    def __init__(self, tables: str | None = None) -> None:
        super().__init__()
        self._tables = Tables("sglang", tables)

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """As shipped, but that SGLang's lookup comes upon the tuned files."""
        import triton  # noqa: PLC0415 - SGLang brings it

        version = f"triton_{triton.__version__.replace('.', '_')}"
        self._tables.find(Path("configs") / version / self._file_name(cell), cell)
        os.environ[_FOLDER_VARIABLE] = str(self._tables.folder)
        self._configs.get_moe_configs.cache_clear()
        return super().prepare(cell, inputs)


def _per_channel(cell: Cell) -> bool:
    """Whether SGLang's lookup is told of one scale for each channel: w8a8 alone says it."""
    return cell.precision == "int8_w8a8"


def _stand_in_for_a_server() -> None:
    """Publish server arguments and make a tensor-parallel group of this one process."""
    server_args = importlib.import_module("sglang.srt.server_args")
    runtime_context = importlib.import_module("sglang.srt.runtime_context")
    runtime_context._CONTEXT.set_server_args(server_args.ServerArgs(model_path="none"))
    distributed = importlib.import_module("sglang.srt.distributed")
    parallel_state = importlib.import_module("sglang.srt.distributed.parallel_state")
    distributed.init_distributed_environment(
        world_size=1,
        rank=0,
        local_rank=0,
        distributed_init_method=f"tcp://127.0.0.1:{_free_port()}",
        backend="nccl",
    )
    # Later groups may want a package that is not there (flashinfer); the one that is read is made first.
    with contextlib.suppress(Exception):
        distributed.initialize_model_parallel()
    parallel_state.get_tp_group()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
