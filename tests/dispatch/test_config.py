"""Tiles from the model."""

from __future__ import annotations

import itertools

import pytest

from dispatch.config import DeviceFacts, Problem, TileConfig, fit, model_config, shared_bytes
from dispatch.precision import Precision

H200 = DeviceFacts("NVIDIA H200", (9, 0), 132)
A100 = DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108)
RTX4090 = DeviceFacts("NVIDIA GeForce RTX 4090", (8, 9), 128)


def problem(tokens: int, precision: Precision = Precision.BF16, device: DeviceFacts = H200) -> Problem:
    """Make a call of the default workload."""
    return Problem(tokens, 6, 64, 2048, 1408, precision, device)


def test_active_experts_are_those_that_uniform_draws_touch():
    """64 (1 - (58 / 64)^M) for M = 1, 4, 16, 64."""
    expected = [6.0, 20.83, 50.75, 63.88]
    assert [round(problem(m).active_experts, 2) for m in (1, 4, 16, 64)] == expected
    assert problem(1).rows_per_expert == pytest.approx(1.0)
    assert problem(2048).rows_per_expert == pytest.approx(192.0)
    assert problem(0).rows_per_expert == 0


def test_tiles_grow_with_the_rows_of_an_expert_and_never_shrink():
    heights = [model_config(problem(tokens)).block_m for tokens in range(1, 5000, 7)]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (16, 128)


@pytest.mark.parametrize("facts", [H200, A100, RTX4090], ids=lambda facts: facts.name)
@pytest.mark.parametrize("precision", list(Precision))
def test_tiles_fit_the_shared_memory_of_the_device(precision, facts):
    for tokens, hidden in itertools.product((1, 16, 128, 512, 4096), (16, 2048, 7168)):
        shape = Problem(tokens, 6, 64, hidden, 1408, precision, facts)
        config = model_config(shape)
        assert config.gate_up.block_m == config.down.block_m
        assert shared_bytes(config.gate_up, precision, 2) <= facts.shared_bytes
        assert shared_bytes(config.down, precision, 1) <= facts.shared_bytes


def test_shared_memory_is_that_of_the_compiler():
    """147,456 and 81,920 bytes are what Triton 3.7.1 reports for these tiles on sm_90."""
    tile = TileConfig(16, 64, 128, 4, 4, swap_ab=True)
    assert shared_bytes(tile, Precision.BF16, 2) == 147456
    assert shared_bytes(tile, Precision.BF16, 1) == 81920


def test_fit_gives_up_stages_before_steps():
    tile = TileConfig(16, 64, 128, 4, 4)
    assert fit(tile, problem(1, device=H200), 2) == tile
    fitted = fit(tile, problem(1, device=RTX4090), 2)
    assert (fitted.num_stages, fitted.block_k) == (2, 128)
    fitted = fit(TileConfig(128, 256, 128, 8, 4), problem(1, device=RTX4090), 1)
    assert (fitted.num_stages, fitted.block_k) == (2, 64)


def test_few_rows_put_the_weights_first():
    assert model_config(problem(16)).gate_up.swap_ab
    assert not model_config(problem(2048)).gate_up.swap_ab


def test_the_interpreter_gets_steps_whose_int8_sums_are_exact_in_float32():
    device = DeviceFacts("cpu-interpreter", (0, 0), 1)
    config = model_config(Problem(3, 2, 4, 9000, 9000, Precision.INT8_W8A8, device))
    assert config.source == "interpreter"
    assert config.gate_up.block_k * 127 * 127 < 2**24
    assert config.down.block_k * 127 * 127 < 2**24
