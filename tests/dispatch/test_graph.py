"""CUDA-graph capture on a GPU."""

from __future__ import annotations

import pytest
import torch

from dispatch import Precision, out_of_range_flag
from tests.dispatch.inputs import make

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("kernel", ["naive", "persistent", "auto"])
def test_a_replay_follows_its_inputs_and_reports_ids_out_of_range(kernel, precision, device):
    inputs = make(40, 512, 256, 8, 3, precision, device=device)
    inputs.run(kernel)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = inputs.run(kernel)
    flag = out_of_range_flag(device)
    for seed in (1, 2):
        drawn = make(40, 512, 256, 8, 3, precision, device=device, seed=seed)
        inputs.x.copy_(drawn.x)
        inputs.topk_ids.copy_(drawn.topk_ids)
        out.fill_(torch.nan)
        graph.replay()
        inputs.check(out)
        assert flag.item() == 0
    inputs.topk_ids[0, 0] = 8
    graph.replay()
    inputs.check(out)
    assert flag.item() == 1


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("kernel", ["naive", "persistent", "auto"])
def test_a_hundred_runs_are_bitwise_equal(kernel, precision, device):
    inputs = make(300, 2048, 1408, 64, 6, precision, device=device)
    first = inputs.run(kernel)
    inputs.check(first)
    assert all(torch.equal(first, inputs.run(kernel)) for _ in range(99))
