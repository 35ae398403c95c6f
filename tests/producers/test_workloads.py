"""Shapes and counts of bytes and operations, against figures worked out elsewhere."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from producers.workloads import WORKLOADS, Cell, flops, io_bytes, weight_bytes


def cell(precision: str, tokens: int) -> Cell:
    shape = WORKLOADS["deepseek-moe-16b"]
    sizes = (shape.experts, shape.top_k, shape.hidden, shape.intermediate)
    return Cell(
        f"{shape.name}/{precision}/uniform/{tokens}", shape.name, *sizes, precision, "uniform", None, tokens
    )


def test_shapes_of_the_named_models() -> None:
    shapes = {name: (w.experts, w.top_k, w.hidden, w.intermediate) for name, w in WORKLOADS.items()}
    assert shapes["deepseek-moe-16b"] == (64, 6, 2048, 1408)
    assert shapes["mixtral-8x7b"] == (8, 2, 4096, 14336)
    assert shapes["qwen3-30b-a3b"] == (128, 8, 2048, 768)
    assert shapes["olmoe"] == (64, 8, 2048, 1024)
    assert shapes["deepseek-v3-shard"] == (256, 8, 7168, 256)
    assert all(w.name == name for name, w in WORKLOADS.items())


def test_weight_bytes_of_one_expert() -> None:
    """8,650,752 parameters an expert; int8 adds 2 I + H float32 scales."""
    assert weight_bytes(cell("bf16", 1), 1) == weight_bytes(cell("fp16", 1), 1) == 17_301_504
    assert weight_bytes(cell("int8_w8a8", 1), 1) == 8_650_752 + 4 * (2816 + 2048)
    assert weight_bytes(cell("int8_w8a16", 1), 64) == 64 * weight_bytes(cell("int8_w8a8", 1), 1)


def test_io_bytes_and_operations() -> None:
    assert io_bytes(cell("bf16", 2048)) == 2 * 2048 * 2048 * 2 + 2048 * 6 * 8
    assert flops(cell("bf16", 2048), 2048 * 6) == 212_600_881_152


def test_cell_of_a_message() -> None:
    expected = cell("bf16", 4)
    assert Cell.from_message({**asdict(expected), "run_id": "r"}) == expected
    with pytest.raises(ValueError, match="lacks tokens"):
        Cell.from_message({k: v for k, v in asdict(expected).items() if k != "tokens"})
    with pytest.raises(ValueError, match="no precision 'fp8'"):
        Cell.from_message({**asdict(expected), "precision": "fp8"})
