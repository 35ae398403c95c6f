"""Humming's int8 products inside vLLM, as vLLM 0.29.0's ``HummingIndexedExperts`` calls them (humming-kernels 0.1.12).

Humming repacks the weights and compiles its kernels by itself. Sorting, SiLU and the sum over the choices are
vLLM's, as served: Humming has no sort of its own. Both packages have to be importable.
"""

from __future__ import annotations

import importlib
import json
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from producers.contestants.base import Contestant, Inputs, Launch, column, config_text
from producers.device import interpreted
from producers.workloads import Cell

_FUSED_MOE = "vllm.model_executor.layers.fused_moe"
_LOCKS = 1024  # as many as vLLM gives its stream-K


@dataclass(frozen=True)
class _Product:
    """One of the two products: Humming's description of it, its repacked tensors and its tiles."""

    layer: Any
    tensors: dict[str, torch.Tensor]
    tuning: list[Any]


class Humming(Contestant):
    """Two ``humming_forward`` of indexed rows, with the quantisation of activations where they are int8."""

    name = "humming"
    house = "humming"
    package = "humming"

    def __init__(self) -> None:
        self._humming = {
            name: importlib.import_module(f"humming.{name}")
            for name in ("config", "dtypes", "forward", "schema", "transform", "tune")
        }
        self._align = importlib.import_module(f"{_FUSED_MOE}.moe_align_block_size").moe_align_block_size
        self._sum = importlib.import_module(f"{_FUSED_MOE}.moe_fused_mul_sum").moe_fused_mul_sum
        self._fix = importlib.import_module(f"{_FUSED_MOE}.experts.fused_humming_moe")
        if not interpreted():
            importlib.import_module("vllm.platforms").current_platform.import_kernels()
        # Repacking takes long and its result depends on the weights alone.
        self._packed: tuple[weakref.ref[torch.Tensor], str, tuple[_Product, _Product]] | None = None
        self._facts: dict[str, Any] = {}

    def supports(self, cell: Cell) -> str | None:
        """int8 on a CUDA device."""
        if interpreted():
            return "Humming needs a CUDA device"
        if not cell.precision.startswith("int8"):
            return "Humming's weights have at most 8 bits"
        return None

    def facts(self) -> dict[str, Any]:
        """The tiles of Humming's own heuristics, as vLLM uses them."""
        return self._facts

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """See the module."""
        first, second = self._products(cell, inputs)
        slots = cell.tokens * cell.top_k
        block = next(tile["block_shape"][0] for least, most, tile in first.tuning if least < slots <= most)
        self._facts = {"config_source": "model", "config_json": config_text({"block_m": block})}
        compute = json.dumps(
            {"use_batch_invariant": False, "use_f16_accum": False, "gemm_type": self._indexed().value}
        )
        tunings = [json.dumps(product.tuning) for product in (first, second)]
        locks = torch.zeros(_LOCKS, dtype=torch.int32, device=inputs.x.device)
        forward = self._humming["forward"]

        def product(which: _Product, tuning: str, rows: torch.Tensor, top_k: int, plan: Any) -> torch.Tensor:
            quantised, scale = forward.may_quant_input(which.layer, inputs=rows)
            sorted_ids, expert_ids, padded = plan
            out: torch.Tensor = forward.humming_forward(
                which.layer,
                inputs=quantised,
                input_scale=scale,
                **which.tensors,
                outputs=rows.new_empty(slots, which.layer.shape_n),
                sorted_ids=sorted_ids,
                expert_ids=expert_ids,
                num_tokens_padded=padded,
                locks=locks,
                top_k=top_k,
                valid_shape_m=slots,
                compute_config=compute,
                tuning_config=tuning,
            )
            return out

        def launch() -> torch.Tensor:
            plan = self._align(inputs.topk_ids, block, cell.experts, ignore_invalid_experts=True)
            gate_up = product(first, tunings[0], inputs.x, cell.top_k, plan)
            down = product(second, tunings[1], vllm_silu_and_mul(gate_up), 1, plan)
            out: torch.Tensor = self._sum(
                down.view(cell.tokens, cell.top_k, cell.hidden), inputs.topk_weights, topk_ids=inputs.topk_ids
            )
            return out

        return launch

    def _indexed(self) -> Any:
        return self._humming["config"].GemmType.INDEXED

    def _products(self, cell: Cell, inputs: Inputs) -> tuple[_Product, _Product]:
        if self._packed is not None:
            weights, precision, products = self._packed
            if weights() is inputs.w13 and precision == cell.precision:
                return products
        self._packed = None
        products = (
            self._product(cell, inputs.w13, inputs.w13_scale),
            self._product(cell, inputs.w2, inputs.w2_scale),
        )
        self._packed = weakref.ref(inputs.w13), cell.precision, products
        return products

    def _product(self, cell: Cell, weight: torch.Tensor, scale: torch.Tensor | None) -> _Product:
        """Repack one of the weights the way vLLM's int8 oracle describes them to Humming."""
        schema, dtypes = self._humming["schema"], self._humming["dtypes"]
        experts, channels, reduction = weight.shape
        described = schema.CompressedTensorsWeightSchema(
            format="int-quantized", type="int", num_bits=8, strategy="channel", symmetric=True
        )
        own, tensors = described.convert_humming(
            {"weight": weight, "weight_scale": column(scale)},
            shape_n_stacks=[channels],
            shape_k_stacks=[reduction],
            param_dtype=torch.bfloat16,
            num_experts=experts,
        )
        activations = dtypes.int8 if cell.precision == "int8_w8a8" else dtypes.bfloat16
        transform = self._humming["transform"]
        layer = transform.prepare_layer_config(
            shape_n=channels,
            shape_k=reduction,
            weight_schema=own,
            input_schema=schema.HummingInputSchema(a_dtype=activations),
            num_experts=experts,
            torch_dtype=torch.bfloat16,
        )
        tuning = self._humming["tune"].get_heuristics_config(layer_config=layer, gemm_type=self._indexed())
        self._fix._fixup_moe_tuning_config(tuning)
        return _Product(layer, transform.transform_humming_tensors(layer, tensors), tuning)


def vllm_silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """SiLU of the first half of the columns times the second half, by vLLM's kernel."""
    activated = gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)
    torch.ops._C.silu_and_mul(activated, gate_up)
    return activated
