"""SGLang's fused MoE, called outside its server (read from SGLang 0.5.20).

The functional interface still wants what a server sets up: published server arguments and a
tensor-parallel group, here of one process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
from pathlib import Path
from typing import Any

import torch

from producers.contestants.base import Contestant, Inputs, Launch, column, config_text
from producers.device import interpreted
from producers.workloads import Cell

_TRITON_UTILS = "sglang.srt.layers.moe.moe_runner.triton_utils"


class Sglang(Contestant):
    """``sglang.srt.layers.moe.moe_runner.triton_utils.fused_experts`` as shipped, never in place."""

    name = "sglang"
    house = "sglang"
    package = "sglang"

    def __init__(self) -> None:
        self._package = importlib.import_module(_TRITON_UTILS)
        self._configs = importlib.import_module(f"{_TRITON_UTILS}.fused_moe_triton_config")
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
        self._facts = self._lookup(cell, inputs, w8a8=w8a8, w8a16=w8a16)
        fused_experts = self._package.fused_experts

        def launch() -> torch.Tensor:
            out: torch.Tensor = fused_experts(inputs.x, inputs.w13, inputs.w2, routing, config, **options)
            return out

        return launch

    def _lookup(self, cell: Cell, inputs: Inputs, *, w8a8: bool, w8a16: bool) -> dict[str, Any]:
        """What ``fused_experts`` will find: exact, from another Triton version's folder, or the default."""
        key = self._configs.get_config_dtype_str(inputs.x.dtype, use_int8_w8a8=w8a8, use_int8_w8a16=w8a16)
        config, (down, _) = self._configs.try_get_optimal_moe_config(
            tuple(inputs.w13.shape),
            tuple(inputs.w2.shape),
            cell.top_k,
            key,
            cell.tokens,
            per_channel_quant=w8a8,
            return_down_config=True,
        )
        found = self._configs.get_moe_configs(
            cell.experts, cell.intermediate, key, 0, 0, per_channel_quant=w8a8, down_moe=False
        )
        facts = {
            "config_source": "default",
            "config_json": config_text(config if down is None else {"up": config, "down": down}),
        }
        if found:
            name = self._configs.get_config_file_name(
                cell.experts, cell.intermediate, key, [0, 0], per_channel_quant=w8a8
            )
            facts.update(self._tuned(name))
        return facts

    def _tuned(self, name: str) -> dict[str, str]:
        """Source and Triton version of a tuned file; SGLang keeps one folder a version, newest first."""
        import triton  # noqa: PLC0415 - SGLang brings it

        shipped = Path(str(self._configs.__file__)).parent
        folder = Path(os.environ.get("SGLANG_MOE_CONFIG_DIR", shipped)) / "configs"
        held = [
            path.parent.name.removeprefix("triton_").replace("_", ".") for path in folder.glob(f"*/{name}")
        ]
        running = triton.__version__
        if running in held:
            return {"config_source": "exact", "tuned_triton_version": running}
        newest = max(held, key=lambda version: [int(part) for part in version.split(".")], default="unknown")
        return {"config_source": "fallback", "tuned_triton_version": newest}


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
