"""The padded plan of ``stream`` and ``tiled`` against its definition, and x as limbs beside it."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dispatch.config import Problem
from dispatch.device import device_facts, out_of_range_flag
from dispatch.kernels.call import Call
from dispatch.kernels.family import MoeTensors
from dispatch.kernels.hopper import plan as plan_module
from dispatch.kernels.hopper.plan import Plan, build_plan
from dispatch.precision import Precision

# What is not finite is multiplied and then left out: numpy warns where a device does not.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")


def plan_of(
    ids: torch.Tensor,
    experts: int,
    block_m: int,
    *,
    device: torch.device,
    halves: bool = False,
    precision: Precision = Precision.BF16,
    x: torch.Tensor | None = None,
) -> Plan:
    """Build a plan for ids [M, k]; what the call does not read stays empty."""
    if x is None:
        x = torch.zeros(len(ids), 16, dtype=torch.bfloat16)
    problem = Problem(*ids.shape, experts, x.shape[1], 16, precision, device_facts(device))
    flag = out_of_range_flag(device)
    flag.zero_()
    nothing = torch.empty(0, device=device)
    tensors = MoeTensors(
        x.to(device), nothing, nothing, nothing, ids.to(device), nothing, nothing, flag, nothing
    )
    return build_plan(tensors, problem, block_m, Call({}, device), halves=halves)


def check(ids: torch.Tensor, experts: int, block_m: int, device: torch.device, *, halves: bool) -> None:
    """Assert all that a product relies on."""
    plan = plan_of(ids, experts, block_m, device=device, halves=halves)
    rows = plan.rows.cpu().reshape(plan.max_tiles, block_m).tolist()
    names = plan.tiles.cpu()[: plan.max_tiles].tolist()
    flat = ids.flatten().tolist()
    counts = Counter(expert for expert in flat if 0 <= expert < experts)
    tiles = [(expert, max(0, n)) for expert, n in sorted(counts.items())]
    expected_names, expected_used = [], []
    for expert, count in tiles:
        for first in range(0, count, block_m):
            left = min(block_m, count - first)
            last = first + block_m >= count
            half = halves and last and left <= block_m // 2
            expected_names.append(expert + experts * half)
            expected_used.append(left)
    used = len(expected_names)
    assert names == expected_names + [-1] * (plan.max_tiles - used)
    seen = []
    for tile, (name, count) in enumerate(zip(expected_names, expected_used, strict=True)):
        slots, padding = rows[tile][:count], rows[tile][count:]
        assert padding == [-1] * len(padding)
        assert all(flat[slot] == name % experts for slot in slots)
        seen += slots
    # Every valid slot is in one place.
    assert sorted(seen) == [slot for slot, expert in enumerate(flat) if 0 <= expert < experts]
    assert out_of_range_flag(device).item() == any(expert >= experts for expert in flat)


@st.composite
def calls(draw: st.DrawFn, most_experts: int) -> tuple[list[list[int]], int]:
    """Ids [M, k], some of no expert, and E."""
    experts = draw(st.integers(1, most_experts))
    top_k = draw(st.integers(1, 5))
    few = draw(st.lists(st.integers(-2, experts + 2), min_size=1, max_size=3))
    ids = st.one_of(st.sampled_from(few), st.integers(0, experts - 1))
    return draw(st.lists(st.lists(ids, min_size=top_k, max_size=top_k), min_size=1, max_size=60)), experts


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=calls(70), block_m=st.sampled_from([16, 32]))
@example(call=([[0]] * 17, 1), block_m=16)
@example(call=([[64, -1]] * 3, 64), block_m=16)
def test_one_program_plans_few_slots(call, block_m, device):
    ids, experts = call
    check(torch.tensor(ids, dtype=torch.int32), experts, block_m, device, halves=False)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=calls(9), block_m=st.sampled_from([16, 32]), halves=st.booleans())
@example(call=([[0]] * 8, 1), block_m=16, halves=True)
@example(call=([[0]] * 9, 1), block_m=16, halves=True)
@example(call=([[0], [11]] * 13, 12), block_m=16, halves=True)
@example(call=([[0]] * 32, 1), block_m=16, halves=True)
def test_one_program_an_expert_plans_as_well(call, block_m, halves, device):
    """The same ids; without halves it is the number of slots that makes it take over."""
    ids, experts = call
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "_MANY_SLOTS", 0)
        check(torch.tensor(ids, dtype=torch.int32), experts, block_m, device, halves=halves)


@pytest.mark.parametrize(("tokens", "experts"), [(2049, 3), (5000, 2)])
def test_slots_and_tiles_of_several_steps(tokens, experts, device):
    """Over 2048 slots one program an expert plans; 5000 take two steps, and over 64 tiles two stores."""
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.randint(-1, experts + 1, (tokens, 1), generator=generator, dtype=torch.int64)
    check(ids, experts, 16, device, halves=True)


def test_the_order_of_an_expert_s_slots_is_ascending_where_each_has_a_program(device):
    ids = torch.tensor([[1], [0], [1], [1]], dtype=torch.int32)
    plan = plan_of(ids, 2, 16, device=device, halves=True)
    assert plan.rows.cpu().reshape(-1, 16)[1].tolist() == [0, 2, 3] + [-1] * 13


@pytest.mark.parametrize("halves", [False, True])
def test_64_bit_ids_are_not_cut(halves, device):
    ids = torch.tensor([[2**32], [1], [-(2**32)]], dtype=torch.int64)
    check(ids, 2, 16, device, halves=halves)


def test_tiles_times_experts_past_a_tensor_are_planned_by_each_expert(device, monkeypatch):
    """One program would need a tensor of more elements than Triton compiles."""
    made = []
    init = plan_module.Kernel.__init__

    def recorded(self, function, constants, **options):
        made.append(constants)
        init(self, function, constants, **options)

    monkeypatch.setattr(plan_module.Kernel, "__init__", recorded)
    monkeypatch.setattr(plan_module.Kernel, "__call__", lambda *_: None)
    for experts in (256, 4095):
        plan_of(torch.zeros(300, 6, dtype=torch.int32), experts, 16, device=device)
    assert [constants["FEW"] for constants in made] == [True, False]
    assert made[0]["MOST_TILES"] * made[0]["BINS"] == 512 * 512
    assert made[1]["MOST_TILES"] == 1


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("precision", [Precision.INT8_W8A8, Precision.INT8_W8A16])
def test_the_same_launch_turns_x_into_limbs(precision, halves, device):
    """Rows of any stride; zeros have the scale 0, and a row that is not finite the scale NaN and no limbs."""
    limbs = 1 if precision is Precision.INT8_W8A8 else 2
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 2, 48, generator=generator).to(torch.bfloat16)[:, 0]
    x[1] = 0
    x[2, 5] = torch.nan
    ids = torch.zeros(4, 2, dtype=torch.int32)
    plan = plan_of(ids, 3, 16, device=device, halves=halves, precision=precision, x=x)
    assert plan.limbs == limbs
    parts = plan.x.cpu().reshape(4, limbs, 48).float()
    value = parts[:, 0] if limbs == 1 else parts[:, 0] * 128 + parts[:, 1]
    scale = plan.x_scale.cpu()
    assert scale[1] == 0
    assert torch.isnan(scale[2])
    assert not value[1:3].any()
    largest = {1: 127, 2: 127 * 128}[limbs]
    for row in (0, 3):
        assert value[row].abs().max() == largest
        assert scale[row] == x[row].float().abs().max() / largest
        # Half a step, and a little for the reciprocal.
        assert ((value[row] * scale[row] - x[row].float()).abs() <= 0.501 * scale[row]).all()
