"""The schedule against a sort on the host."""

from __future__ import annotations

import itertools

import pytest
import torch

from dispatch.config import Problem
from dispatch.device import device_facts
from dispatch.kernels.schedule import build_schedule, max_row_tiles
from dispatch.precision import Precision


def schedule_of(ids: torch.Tensor, experts: int, block_m: int, device: torch.device):
    """Build a schedule; its order, header, tiles and flag on the host."""
    flag = torch.zeros(1, dtype=torch.int32, device=device)
    problem = Problem(*ids.shape, experts, 64, 32, Precision.BF16, device_facts(device))
    schedule = build_schedule(ids.to(device), flag, problem, block_m)
    tiles = schedule.tiles.cpu()
    count, rows = tiles[0, :2].tolist()
    assert count <= schedule.max_tiles
    return schedule.order.cpu()[:rows].tolist(), tiles[1 : 1 + count, :3].tolist(), flag.item()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("tokens", "top_k", "experts", "block_m"), [(1, 1, 1, 16), (40, 3, 9, 16), (1500, 2, 70, 32)]
)
def test_slots_are_sorted_by_expert_and_every_one_is_in_one_tile(
    tokens, top_k, experts, block_m, dtype, device
):
    """1500 x 2 slots take several steps of the kernel's loops; 70 experts more than one 64-bin histogram."""
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.randint(-2, experts + 2, (tokens, top_k), generator=generator).to(dtype)
    order, tiles, flag = schedule_of(ids, experts, block_m, device)
    flat = ids.flatten().tolist()
    valid = [slot for slot, expert in enumerate(flat) if 0 <= expert < experts]
    assert order == sorted(valid, key=lambda slot: flat[slot])
    assert flag == any(expert >= experts for expert in flat)
    expected = []
    place = 0
    for expert, group in itertools.groupby(order, key=lambda slot: flat[slot]):
        end = place + len(list(group))
        expected += [[expert, row, min(row + block_m, end)] for row in range(place, end, block_m)]
        place = end
    assert tiles == expected


def test_one_expert_with_more_tiles_than_a_step_writes(device):
    ids = torch.full((1100, 1), 1, dtype=torch.int32)
    order, tiles, _ = schedule_of(ids, 3, 16, device)
    assert order == list(range(1100))
    assert tiles == [[1, row, min(row + 16, 1100)] for row in range(0, 1100, 16)]


def test_no_valid_slot_means_no_tile(device):
    order, tiles, flag = schedule_of(torch.full((4, 2), -1, dtype=torch.int32), 8, 16, device)
    assert (order, tiles, flag) == ([], [], 0)


def test_the_bound_of_tiles_is_reached_and_never_passed():
    """Over every way to give up to 9 slots to 3 experts."""
    for block_m, slots in itertools.product((2, 4), range(10)):
        needed = [
            sum(-(-count // block_m) for count in counts)
            for counts in itertools.product(range(slots + 1), repeat=3)
            if sum(counts) == slots
        ]
        assert max(needed) == max_row_tiles(slots, 3, block_m)
