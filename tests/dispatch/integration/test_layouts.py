"""Layout flags of transformers' experts interface: honoured with the right values, or refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers.integrations.moe import use_experts_implementation

from dispatch import InvalidInputError, UnsupportedError, fused_moe_reference, out_of_range_flag
from dispatch.integration.layers import experts_layers
from tests.dispatch.inputs import BOUNDS
from tests.dispatch.integration.models import relative_error

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, TOKENS = 5, 2, 48, 40, 7


class Experts(nn.Module):
    """The weights that every layout holds, drawn from one seed."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        w13 = torch.randn(EXPERTS, 2 * INTERMEDIATE, HIDDEN, generator=generator) * HIDDEN**-0.5
        w2 = torch.randn(EXPERTS, HIDDEN, INTERMEDIATE, generator=generator) * INTERMEDIATE**-0.5
        self.num_experts = EXPERTS
        self.gate_up_proj = nn.Parameter(w13.to(config.dtype), requires_grad=False)
        self.down_proj = nn.Parameter(w2.to(config.dtype), requires_grad=False)
        self.act_fn = config.act_fn

    def forward(self, *_: torch.Tensor) -> torch.Tensor:
        """Stand for the eager loop, which no test here runs."""
        raise AssertionError("the layer's own forward ran")


def layer_of(device: torch.device, base: type = Experts, dtype: Any = torch.bfloat16, **flags: Any) -> Any:
    """Return a layer whose class is decorated with ``flags``; it runs ``dispatch``."""
    config = SimpleNamespace(
        _experts_implementation="dispatch", dtype=dtype, act_fn=flags.pop("act_fn", nn.SiLU())
    )
    decorated = use_experts_implementation(type("Experts", (base,), {}), **flags)
    return decorated(config).to(device)


def routed(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, ...]:
    """Return hidden states, ids and router weights."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(TOKENS, HIDDEN, generator=generator).to(dtype)
    ids = torch.rand(TOKENS, EXPERTS, generator=generator).argsort(-1)[:, :TOP_K]
    weights = torch.rand(TOKENS, TOP_K, generator=generator)
    return x.to(device), ids.to(device), weights.to(device)


def expected(device: torch.device, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Compute the definition with the weights in their plain layout."""
    plain = layer_of(device)
    return fused_moe_reference(x, plain.gate_up_proj, plain.down_proj, weights, ids, dtype=torch.float64)


class Transposed(Experts):
    """[E, H, 2 I] and [E, I, H]."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for name in ("gate_up_proj", "down_proj"):
            held = getattr(self, name)
            setattr(self, name, nn.Parameter(held.transpose(1, 2).contiguous(), requires_grad=False))


def test_the_plain_layout_is_computed(device):
    inputs = routed(device)
    assert relative_error(layer_of(device)(*inputs), expected(device, *inputs)) < BOUNDS["bf16"]


def test_router_weights_of_16_bits_are_taken(device):
    """Qwen-MoE gives them in the type of its hidden states."""
    x, ids, weights = routed(device)
    weights = weights.bfloat16()
    assert (
        relative_error(layer_of(device)(x, ids, weights), expected(device, x, ids, weights)) < BOUNDS["bf16"]
    )


def test_a_transposed_layout_is_computed_and_keeps_one_copy(device):
    inputs = routed(device)
    layer = layer_of(device, Transposed, is_transposed=True)
    before = {name: held.clone() for name, held in layer.named_parameters()}
    assert before["gate_up_proj"].shape == (EXPERTS, HIDDEN, 2 * INTERMEDIATE)
    assert relative_error(layer(*inputs), expected(device, *inputs)) < BOUNDS["bf16"]
    moved = {name: held.data_ptr() for name, held in layer.named_parameters()}
    for name, held in layer.named_parameters():
        assert torch.equal(held, before[name])  # shape and values: a checkpoint is still saved from them
        assert held.transpose(1, 2).is_contiguous()
        assert held.untyped_storage().nbytes() == held.numel() * 2
    layer(*inputs)
    assert {name: held.data_ptr() for name, held in layer.named_parameters()} == moved


def test_the_transposed_layer_of_transformers_is_computed(device):
    """Aria's text experts."""
    from transformers.models.aria.modeling_aria import AriaExperts

    if not hasattr(AriaExperts, "_apply_gate"):
        pytest.skip("in this transformers Aria has a loop of its own")
    config = SimpleNamespace(
        moe_num_experts=EXPERTS,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        _experts_implementation="dispatch",
    )
    layer = AriaExperts(config).to(torch.bfloat16).to(device).requires_grad_(False)
    generator = torch.Generator().manual_seed(8)
    for held in layer.parameters():
        held.data = (torch.randn(held.shape, generator=generator) * 0.15).to(held.dtype).to(device)
    inputs = routed(device)
    found = layer(*inputs)
    config._experts_implementation = "eager"
    assert relative_error(found, layer(*inputs)) < 2 * BOUNDS["bf16"]


# --- refused by name


class Ungated(Experts):
    """One projection in place of gate and up."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.up_proj = self.gate_up_proj
        del self.gate_up_proj


class Clamped(Experts):
    """A gate that is silu(gate) * up for all but large values."""

    def _apply_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return self.act_fn(gate.clamp(max=7.0)) * up.clamp(-7.0, 7.0)


class UpFirst(Experts):
    """Up rows, then gate rows."""

    def _apply_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        up, gate = gate_up.chunk(2, dim=-1)
        return self.act_fn(gate) * up


class LaterFlag(Experts):
    """A flag that no transformers of today has."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.has_router_norm = True


@pytest.mark.parametrize(
    ("base", "flags", "sentence"),
    [
        (
            Experts,
            {"is_concatenated": False},
            r"Experts stores gate and up rows interleaved \(is_concatenated=False\)",
        ),
        (Experts, {"has_bias": True}, "Experts sets has_bias, which dispatch does not compute"),
        (Ungated, {"has_gate": False}, r"Experts has no gate \(has_gate=False\)"),
        (LaterFlag, {}, "Experts sets has_router_norm, which dispatch does not compute"),
        (Clamped, {}, r"does not compute silu\(gate\) \* up.* its gate Clamped._apply_gate"),
        (UpFirst, {}, r"does not compute silu\(gate\) \* up.* its gate UpFirst._apply_gate"),
        (Experts, {"act_fn": nn.GELU()}, r"does not compute silu\(gate\) \* up.*: its activation is GELU"),
        (Experts, {"act_fn": nn.functional.relu}, "its activation is relu"),
        (
            Experts,
            {"dtype": torch.float32},
            r"gate_up_proj is float32 .*load the model with dtype=torch.bfloat16",
        ),
    ],
)
def test_what_is_not_computed_is_refused_by_name(base, flags, sentence, device):
    with pytest.raises(UnsupportedError, match=sentence):
        layer_of(device, base, **flags)(*routed(device))


def test_a_norm_after_each_expert_is_refused(device):
    layer = layer_of(device)
    layer.has_post_expert_norm = True
    with pytest.raises(UnsupportedError, match="sets has_post_expert_norm"):
        layer(*routed(device))


def test_silu_by_any_name_is_computed(device):
    """Of transformers' table, of torch's modules, and the function."""
    from transformers.activations import ACT2FN

    inputs = routed(device)
    wanted = expected(device, *inputs)
    for activation in (ACT2FN["silu"], ACT2FN["swish"], nn.functional.silu, lambda x: x * torch.sigmoid(x)):
        found = layer_of(device, act_fn=activation)(*inputs)
        assert relative_error(found, wanted) < BOUNDS["bf16"]


def test_weights_that_are_no_plain_tensors_are_refused(device):
    class Packed(torch.Tensor):
        """As a quantiser's or a distributed tensor is."""

    layer = layer_of(device)
    layer.down_proj = nn.Parameter(layer.down_proj.data.as_subclass(Packed), requires_grad=False)
    with pytest.raises(UnsupportedError, match=r"Experts\.down_proj is Packed; dispatch reads plain tensors"):
        layer(*routed(device))
    with pytest.raises(UnsupportedError, match=r"Experts\.gate_up_proj is on the meta device"):
        layer_of(device).to("meta")(*routed(device))


def test_a_model_of_a_refused_layout_says_so(device):
    """gpt-oss is transposed, interleaved, biased and clamped; the first flag is named."""
    from transformers.models.gpt_oss.configuration_gpt_oss import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

    config = GptOssConfig(num_local_experts=4, hidden_size=HIDDEN, intermediate_size=INTERMEDIATE)
    config._experts_implementation = "dispatch"
    layer = GptOssExperts(config).to(torch.bfloat16).to(device)
    with pytest.raises(UnsupportedError, match="GptOssExperts stores gate and up rows interleaved"):
        layer(*routed(device))


def test_a_model_without_experts_layers_is_refused():
    with pytest.raises(InvalidInputError, match="Linear has no layer on transformers' experts interface"):
        experts_layers(nn.Linear(2, 2))


def test_a_layer_that_needs_gradients_is_refused(device):
    layer = layer_of(device)
    layer.down_proj.requires_grad_(True)
    with pytest.raises(InvalidInputError, match=r"call it under torch\.no_grad"):
        layer(*routed(device))


# --- experts of another rank


def test_experts_held_elsewhere_contribute_nothing_and_raise_no_flag(device):
    """transformers marks them with id E, and gives each rank the weights of its own experts."""
    x, ids, weights = routed(device)
    ids[0, 0] = EXPERTS
    ids[3] = EXPERTS
    layer = layer_of(device)
    layer._is_expert_parallel = True
    before = ids.clone()
    found = layer(x, ids, weights)
    assert relative_error(found, expected(device, x, ids, weights)) < BOUNDS["bf16"]
    assert not found[3].any()
    assert torch.equal(ids, before)
    assert out_of_range_flag(device).item() == 0


def test_an_id_past_the_experts_of_one_rank_alone_is_dropped_and_flagged(device):
    x, ids, weights = routed(device)
    ids[0, 0] = EXPERTS
    layer = layer_of(device)
    layer._is_expert_parallel = False
    assert relative_error(layer(x, ids, weights), expected(device, x, ids, weights)) < BOUNDS["bf16"]
    assert out_of_range_flag(device).item() == 1
