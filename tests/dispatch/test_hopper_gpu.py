"""The Hopper families on the device that they are written for, at the real shape."""

from __future__ import annotations

import pytest
import torch

from dispatch import Precision, out_of_range_flag
from tests.dispatch.inputs import make
from tests.dispatch.test_hopper import REFUSED
from tests.dispatch.test_kernel_cases import CASES, run_case

pytestmark = pytest.mark.gpu

# Counts that give a family each of its default tiles, and a few on both sides of a tile's height.
TOKENS = {"vector": (1, 2, 3), "stream": (1, 4, 16, 17, 64, 128, 500), "tiled": (64, 512, 2048, 2049)}
SHAPES = [(family, tokens) for family, counts in TOKENS.items() for tokens in counts]


@pytest.fixture(autouse=True)
def hopper() -> None:
    """Skip on any other device."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a device of compute capability 9.0")


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize(("family", "tokens"), SHAPES)
def test_the_real_shape_in_a_hundred_runs(family, tokens, precision, device):
    """Bitwise the same each time, though the plan of few slots puts rows in any order."""
    inputs = make(tokens, 2048, 1408, 64, 6, precision, device=device, seed=tokens)
    first = inputs.run(family)
    inputs.check(first)
    assert all(torch.equal(first, inputs.run(family)) for _ in range(99))


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("family", TOKENS)
def test_a_replay_follows_its_inputs_and_reports_ids_out_of_range(family, precision, device):
    tokens = 2 if family == "vector" else 40
    inputs = make(tokens, 512, 256, 8, 3, precision, device=device)
    inputs.run(family)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = inputs.run(family)
    flag = out_of_range_flag(device)
    for seed in (1, 2):
        drawn = make(tokens, 512, 256, 8, 3, precision, device=device, seed=seed)
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
@pytest.mark.parametrize("family", TOKENS)
def test_calls_behind_each_other_share_buffers_safely(family, precision, device):
    """Each call's kernels start early; the next call's first must still wait for the last of this one."""
    tokens = 1 if family == "vector" else 200
    drawn = [make(tokens, 2048, 1408, 64, 6, precision, device=device, seed=seed) for seed in range(2)]
    expected = [inputs.run(family) for inputs in drawn]
    torch.cuda.synchronize()
    results = [drawn[i % 2].run(family) for i in range(50)]
    for i, result in enumerate(results):
        assert torch.equal(result, expected[i % 2])


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family in TOKENS for name in CASES if name not in REFUSED[family]]
)
def test_case_at_full_size(family, name, device):
    run_case(name, family, device, full=True)


@pytest.mark.parametrize("family", TOKENS)
def test_a_call_in_place_does_not_decide_where_later_calls_read(family, device):
    """The first call of a layout is noted down; out may be x in it and another tensor in the next."""
    inputs = make(2 if family == "vector" else 40, 512, 256, 8, 3, device=device, seed=91)
    expected = inputs.run(family)
    in_place = inputs.with_(x=inputs.x.clone())
    assert torch.equal(in_place.run(family, out=in_place.x), expected)
    apart = torch.full_like(inputs.x, torch.nan)
    for _ in range(2):
        assert torch.equal(inputs.run(family, out=apart), expected)
    assert torch.equal(in_place.with_(x=inputs.x.clone()).run(family), expected)
