"""How Humming and triton_kernels are called, with stand-ins that compute what the packages are documented to."""

# ruff: noqa: ARG002 - stand-ins take what the packages take

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from producers.contestants import humming
from producers.contestants.base import silu_and_mul
from producers.contestants.humming import Humming
from producers.contestants.triton_kernels import TritonKernels
from producers.referee import reference
from producers.verify import judge
from tests.producers.peers import TOLERANCE, small_cell
from tests.producers.test_contestants import drawn_inputs


def install(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(attributes, __path__=[])
    monkeypatch.setitem(sys.modules, name, module)


def relative_error(output: torch.Tensor, inputs: Any) -> float:
    return judge(output, reference(inputs.named(), inputs.named()), 0.01).relative_error


# ---- triton_kernels ----


def ragged_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: None,
    *,
    a_ragged_metadata: torch.Tensor,
    gather_indx: torch.Tensor | None = None,
    scatter_indx: torch.Tensor | None = None,
    gammas: torch.Tensor | None = None,
    fused_activation: Any = None,
) -> torch.Tensor:
    """Slices of rows times the slice's matrix [K, N]; rows gathered before, scattered after."""
    assert b.is_contiguous()
    rows = a if gather_indx is None else a[gather_indx.long()]
    products, first = [], 0
    for matrix, size in zip(b, a_ragged_metadata.tolist(), strict=True):
        products.append(rows[first : first + size].float() @ matrix.float())
        first += size
    assert first == rows.shape[0]
    out = torch.cat(products)
    if fused_activation is not None:
        specs, arguments = fused_activation
        assert (specs.reduction_n, arguments) == (2, ())
        out = torch.nn.functional.silu(out[:, ::2]) * out[:, 1::2]
    if gammas is not None:
        out *= gammas[:, None]
    if scatter_indx is not None:
        scattered = torch.full_like(out, float("nan"))
        scattered[scatter_indx.long()] = out
        out = scattered
    return out.to(a.dtype)


@pytest.mark.parametrize("tokens", [1, 5])
def test_triton_kernels_gets_slots_sorted_by_expert(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    def metadata(sizes: torch.Tensor, rows: int) -> torch.Tensor:
        assert (sizes.dtype, int(sizes.sum())) == (torch.int32, rows)
        return sizes

    def specs(name: str, fn: Any, names: tuple[str, ...], *, reduction_n: int) -> Any:
        return SimpleNamespace(name=name, fn=fn, names=names, reduction_n=reduction_n)

    install(monkeypatch, "triton_kernels")
    install(
        monkeypatch, "triton_kernels.matmul",
        matmul=ragged_matmul, FnSpecs=specs, FusedActivation=lambda *both: both,
    )  # fmt: skip
    install(monkeypatch, "triton_kernels.tensor", make_ragged_tensor_metadata=metadata)
    cell = small_cell(tokens=tokens)
    inputs = drawn_inputs(cell)
    output = TritonKernels().prepare(cell, inputs)()
    assert output.dtype == inputs.x.dtype
    assert relative_error(output, inputs) < TOLERANCE["bf16"]


def test_triton_kernels_takes_bf16_on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("triton_kernels", "triton_kernels.matmul", "triton_kernels.tensor"):
        install(monkeypatch, name)
    assert TritonKernels().supports(small_cell()) == "triton_kernels needs a CUDA device"
    monkeypatch.setattr("producers.contestants.triton_kernels.interpreted", lambda: False)
    assert TritonKernels().supports(small_cell()) is None
    assert "no int8 product" in str(TritonKernels().supports(small_cell("int8_w8a8")))


# ---- Humming ----


class Packages:
    """Stand-ins for Humming and vLLM: the layer is the description, repacked weights are plain ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repacked = 0
        fused_moe = "vllm.model_executor.layers.fused_moe"
        for name in (
            "humming", "vllm", "vllm.model_executor", "vllm.model_executor.layers", fused_moe, f"{fused_moe}.experts",
        ):  # fmt: skip
            install(monkeypatch, name)
        install(
            monkeypatch, "humming.config", GemmType=SimpleNamespace(INDEXED=SimpleNamespace(value="indexed"))
        )
        install(monkeypatch, "humming.dtypes", int8="int8", bfloat16="bfloat16")
        install(monkeypatch, "humming.forward", may_quant_input=self.quant, humming_forward=self.forward)
        install(
            monkeypatch, "humming.schema",
            CompressedTensorsWeightSchema=lambda **words: SimpleNamespace(convert_humming=self.convert, **words),
            HummingInputSchema=lambda a_dtype: a_dtype,
        )  # fmt: skip
        install(
            monkeypatch, "humming.transform",
            prepare_layer_config=SimpleNamespace,
            transform_humming_tensors=self.transform,
        )  # fmt: skip
        install(monkeypatch, "humming.tune", get_heuristics_config=self.heuristics)
        install(monkeypatch, f"{fused_moe}.moe_align_block_size", moe_align_block_size=self.align)
        install(monkeypatch, f"{fused_moe}.moe_fused_mul_sum", moe_fused_mul_sum=self.mul_sum)
        install(monkeypatch, f"{fused_moe}.experts.fused_humming_moe", _fixup_moe_tuning_config=self.fix)
        monkeypatch.setattr(humming, "vllm_silu_and_mul", silu_and_mul)

    def convert(self, tensors: dict[str, torch.Tensor], **words: Any) -> tuple[str, dict[str, torch.Tensor]]:
        weight, scale = tensors["weight"], tensors["weight_scale"]
        assert weight.shape[1:] == (words["shape_n_stacks"][0], words["shape_k_stacks"][0])
        assert scale.shape == (*weight.shape[:2], 1)
        return "schema", {"weight": weight, "weight_scale": scale}

    def transform(self, layer: Any, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        self.repacked += 1
        return tensors

    def heuristics(self, *, layer_config: Any, gemm_type: Any) -> list[Any]:
        return [[0, 8, {"block_shape": [8, 128, 256]}], [8, 1 << 30, {"block_shape": [16, 128, 256]}]]

    def fix(self, tuning: list[Any]) -> None:
        for entry in tuning:
            entry[2]["block_shape"][2] = 128

    def align(self, ids: torch.Tensor, block: int, experts: int, *, ignore_invalid_experts: bool) -> Any:
        assert ignore_invalid_experts
        self.block = block
        return ids.flatten(), experts, None

    def quant(self, layer: Any, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if layer.input_schema == "bfloat16":
            return inputs, None
        scale = inputs.float().abs().amax(1, keepdim=True) / 127
        return (inputs.float() / scale).round().to(torch.int8), scale

    def forward(
        self, layer: Any, *, inputs: torch.Tensor, outputs: torch.Tensor, **words: Any
    ) -> torch.Tensor:
        assert words["locks"].dtype == torch.int32
        assert '"block_shape": [8, 128, 128]' in words["tuning_config"]
        slots = torch.arange(outputs.shape[0])
        rows = inputs[slots // words["top_k"]].float()
        if words["input_scale"] is not None:
            rows = rows * words["input_scale"][slots // words["top_k"]]
        weight = words["weight"].float() * words["weight_scale"]
        outputs.copy_(torch.einsum("snk,sk->sn", weight[words["sorted_ids"].long()], rows))
        return outputs

    def mul_sum(self, slots: torch.Tensor, weights: torch.Tensor, *, topk_ids: torch.Tensor) -> torch.Tensor:
        assert topk_ids.shape == weights.shape
        return (slots.float() * weights[..., None]).sum(1).to(slots.dtype)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Packages:
    return Packages(monkeypatch)


@pytest.mark.parametrize("precision", ["int8_w8a16", "int8_w8a8"])
def test_humming_computes_the_layer(packages: Packages, precision: str) -> None:
    cell = small_cell(precision, tokens=5)
    inputs = drawn_inputs(cell)
    contestant = Humming()
    output = contestant.prepare(cell, inputs)()
    assert relative_error(output, inputs) < TOLERANCE[precision]
    assert packages.block == 16  # of the tiles for 10 slots
    assert contestant.facts()["config_json"] == '{"block_m":16}'


def test_humming_repacks_weights_once_for_a_precision(packages: Packages) -> None:
    contestant = Humming()
    inputs = drawn_inputs(small_cell("int8_w8a8", tokens=5))
    for precision, times in (("int8_w8a8", 2), ("int8_w8a8", 2), ("int8_w8a16", 4)):
        contestant.prepare(small_cell(precision, tokens=5), inputs)
        assert packages.repacked == times
    contestant.prepare(small_cell("int8_w8a16", tokens=5), drawn_inputs(small_cell("int8_w8a8", tokens=5), 1))
    assert packages.repacked == 6


def test_humming_takes_int8_on_a_card(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    contestant = Humming()
    assert contestant.supports(small_cell("int8_w8a8")) == "Humming needs a CUDA device"
    monkeypatch.setattr(humming, "interpreted", lambda: False)
    assert contestant.supports(small_cell("int8_w8a8")) is None
    assert contestant.supports(small_cell()) == "Humming's weights have at most 8 bits"
