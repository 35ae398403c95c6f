"""Calls are counted where a kernel ran, not where one was asked for."""

from __future__ import annotations

import pytest
import torch

from dispatch import InvalidInputError, UnsupportedError, fused_moe
from dispatch.integration import count_calls
from dispatch.integration.layers import experts_layers
from tests.dispatch.inputs import make as make_inputs
from tests.dispatch.integration.models import make, token_ids


def test_every_layer_counts_its_own_calls(device):
    model = make("mixtral", device, num_hidden_layers=3)
    model.set_experts_implementation("dispatch_persistent")
    with count_calls(model) as calls:
        model(token_ids(device))
        model(token_ids(device, 2))
    names = [f"model.layers.{number}.mlp.experts" for number in range(3)]
    assert calls.by_layer == {name: {"persistent": 2} for name in names}
    assert (calls.least("persistent"), calls.least(), calls.least("auto"), calls.least("naive")) == (
        2,
        2,
        2,
        0,
    )
    assert (calls.least(precision="bf16"), calls.least(precision="int8_w8a8")) == (2, 0)
    assert (calls.kernels, calls.precisions, calls.outside) == ({"persistent"}, {"bf16"}, 0)
    model(token_ids(device))
    assert calls.least() == 2  # the block is over


def test_stock_experts_count_nothing(device):
    model = make("mixtral", device)
    with count_calls(model) as calls:
        model(token_ids(device))
    assert calls.by_layer == {"model.layers.0.mlp.experts": {}, "model.layers.1.mlp.experts": {}}
    assert calls.least() == 0


def test_one_layer_that_runs_something_else_makes_the_least_count_zero(device):
    """A name that is registered, a forward that returns stock's output: the sabotage to catch."""
    model = make("mixtral", device)
    model.set_experts_implementation("dispatch_naive")
    (_, first), (_, second) = experts_layers(model).items()
    stock = make("mixtral", device).model.layers[1].mlp.experts
    second.forward = stock.forward
    with count_calls(model) as calls:
        model(token_ids(device))
    assert calls.by_layer == {"model.layers.0.mlp.experts": {"naive": 1}, "model.layers.1.mlp.experts": {}}
    assert calls.least("naive") == 0
    assert first.num_experts == second.num_experts


def test_calls_outside_the_model_are_not_a_layers(device):
    model = make("mixtral", device)
    inputs = make_inputs(3, 48, 40, 5, 2, device=device)
    with count_calls(model) as calls:
        fused_moe(*inputs.operands)
    assert (calls.outside, calls.least()) == (1, 0)


def test_a_forward_that_raised_leaves_no_layer_running(device):
    model = make("mixtral", device)
    model.set_experts_implementation("dispatch")
    layer = model.model.layers[0].mlp.experts
    layer.has_bias = True
    inputs = make_inputs(3, 48, 40, 5, 2, device=device)
    with count_calls(model) as calls:
        with pytest.raises(UnsupportedError, match="has_bias"):
            model(token_ids(device))
        fused_moe(*inputs.operands)
    assert (calls.outside, calls.least()) == (1, 0)
    assert not layer._forward_hooks
    assert not layer._forward_pre_hooks


def test_a_dense_model_has_nothing_to_count():
    with (
        pytest.raises(InvalidInputError, match="no layer on transformers' experts interface"),
        count_calls(torch.nn.Linear(2, 2)),
    ):
        pass
