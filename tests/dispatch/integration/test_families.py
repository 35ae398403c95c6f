"""Models of transformers: stock experts against dispatch, at the logits and at every layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from dispatch import fused_moe_reference
from dispatch.integration import IMPLEMENTATIONS, count_calls, register
from dispatch.integration.layers import experts_layers
from tests.dispatch.inputs import BOUNDS
from tests.dispatch.integration.models import FAMILIES, make, relative_error, token_ids, with_cache

# Of the logits in float16. Both round an activated row, an expert's share and the sum, in other places; each
# costs up to 2^-12 of a value, and two layers of a residual stream of some four times their size carry it.
LOGITS = 8 * 2**-12


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_stock_experts_at_prefill_and_at_a_step_with_a_cache(family, device):
    model = make(family, device, torch.float16)
    tokens = token_ids(device)
    prompt, step = tokens[:, :-1], tokens[:, -1:]
    stock = model(prompt, use_cache=True)
    stock_step = model(step, **with_cache(stock)).logits
    stock_prompt = stock.logits.clone()
    model.set_experts_implementation("dispatch")
    with count_calls(model) as calls:
        prefill = model(prompt, use_cache=True)
        decoded = model(step, **with_cache(prefill))
    assert calls.least() == 2
    assert relative_error(prefill.logits, stock_prompt) < LOGITS
    assert relative_error(decoded.logits, stock_step) < LOGITS
    assert torch.equal(decoded.logits.argmax(-1), stock_step.argmax(-1))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_computes_the_definition_on_what_stock_layers_saw(family, device):
    """In bfloat16, where the router of a whole model may choose another expert for a rounding."""
    model = make(family, device)
    with _recorded(model) as seen:
        model(token_ids(device))
    model.set_experts_implementation("dispatch")
    assert len(seen) == len(experts_layers(model))
    for name, layer in experts_layers(model).items():
        x, ids, weights = seen[name]
        found = layer(x, ids, weights)
        expected = fused_moe_reference(
            x, layer.gate_up_proj, layer.down_proj, weights, ids, dtype=torch.float64
        )
        assert relative_error(found, expected) < BOUNDS["bf16"], name


@contextmanager
def _recorded(model: Any) -> Iterator[dict[str, tuple[torch.Tensor, ...]]]:
    seen: dict[str, tuple[torch.Tensor, ...]] = {}

    def keep(name: str) -> Any:
        return lambda _, arguments: seen.__setitem__(name, tuple(a.clone() for a in arguments))

    handles = [layer.register_forward_pre_hook(keep(name)) for name, layer in experts_layers(model).items()]
    yield seen
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_one_argument_selects_an_implementation(name, device):
    """`experts_implementation=` of from_config is that of from_pretrained."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model("mixtral", **FAMILIES["mixtral"])
    model = AutoModelForCausalLM.from_config(config, experts_implementation=name, dtype=torch.bfloat16)
    with torch.no_grad(), count_calls(model.to(device).eval()) as calls:
        model(token_ids(device))
    wanted = IMPLEMENTATIONS[name]
    assert calls.least(wanted) == 1
    assert wanted == "auto" or calls.kernels == {wanted}


def test_registering_again_changes_nothing(names):
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    before = {name: ALL_EXPERTS_FUNCTIONS[name] for name in names}
    assert register() == names == ("dispatch", "dispatch_naive", "dispatch_persistent")
    assert {name: ALL_EXPERTS_FUNCTIONS[name] for name in names} == before
    assert len({*before.values()}) == len(names)


def test_greedy_generation_gives_the_tokens_of_stock(device):
    model = make("qwen3_moe", device, torch.float16)
    options: dict[str, Any] = {
        "max_new_tokens": 4,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    prompt = token_ids(device)
    stock = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    model.set_experts_implementation("dispatch")
    with count_calls(model) as calls:
        found = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    assert calls.least() == 4
    assert torch.equal(found, stock)
    assert found.shape == (2, 13)


def test_a_compiled_model_sees_one_operation_and_breaks_no_graph(device):
    """transformers compiles the forward by itself when it generates with a static cache on a GPU."""
    model = make("mixtral", device, torch.float16)
    model.set_experts_implementation("dispatch")
    expected = model(token_ids(device)).logits
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
    assert torch.equal(compiled(token_ids(device)).logits, expected)
    # Hooks are not traced into the graph: calls are seen, and not taken for a layer's.
    with count_calls(model) as calls:
        compiled(token_ids(device))
    assert (calls.outside, calls.least()) == (2, 0)
