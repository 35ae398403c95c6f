"""Experts layers and models under CUDA-graph capture."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dispatch import CaptureError
from dispatch.integration import quantize_experts
from tests.dispatch.integration.models import FAMILIES, make, relative_error, token_ids
from tests.dispatch.integration.test_layouts import layer_of, routed

pytestmark = pytest.mark.gpu


def captured(run: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """Warm up on a side stream, capture, and return the graph with its output."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


@pytest.mark.parametrize("precision", [None, "int8_w8a16", "int8_w8a8"])
def test_a_replay_routes_by_the_ids_of_now(precision, device):
    layer = layer_of(device)
    if precision:
        quantize_experts(torch.nn.ModuleList([layer]), precision)
    x, ids, weights = routed(device)
    graph, result = captured(lambda: layer(x, ids, weights))
    x.copy_(x.flip(0))
    ids.copy_((ids + 1) % layer.num_experts)
    weights.copy_(weights * 0.5)
    graph.replay()
    assert torch.equal(result, layer(x, ids, weights))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_nothing_synchronises_with_the_host(device):
    layer = layer_of(device)
    inputs = routed(device)
    layer(*inputs)
    try:
        torch.cuda.set_sync_debug_mode("error")
        layer(*inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_layer_that_was_not_read_yet_is_not_read_under_capture(device):
    layer, inputs = layer_of(device), routed(device)
    with (
        pytest.raises(CaptureError, match="run the model once before capturing"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        layer(*inputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_with_a_static_cache_replay_as_they_run(family, device):
    """Each step appends to the cache, on the device: a graph of one step is the next step at every replay."""
    model = make(family, device)
    model.set_experts_implementation("dispatch")
    eager = _steps(model, device, replayed=0)
    graphed = _steps(model, device, replayed=2)
    for step, (found, expected) in enumerate(zip(graphed, eager, strict=True)):
        assert relative_error(found, expected) < 2**-7, step
    assert not torch.equal(eager[3], eager[4])  # a step that saw the same cache twice would pass otherwise


def _steps(model, device: torch.device, replayed: int, steps: int = 5) -> list[torch.Tensor]:
    from transformers import StaticCache

    tokens = token_ids(device)
    cache = StaticCache(config=model.config, max_cache_len=16)
    name = "cache" if "cache" in model(tokens[:, :2]) else "past_key_values"
    model(tokens[:, :-1], **{name: cache})
    token, position = tokens[:, -1:].clone(), torch.full((2, 1), 8, device=device)

    def step() -> torch.Tensor:
        return model(token, position_ids=position, **{name: cache}).logits

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = [step().clone() for _ in range(steps - replayed)]
    torch.cuda.current_stream().wait_stream(stream)
    if replayed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step()
        for _ in range(replayed):
            graph.replay()
            found.append(result.clone())
    return found
