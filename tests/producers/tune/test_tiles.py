"""Candidates for the engines' kernel: what fits, and that known good ones are among the first."""

from __future__ import annotations

from itertools import pairwise

import pytest

from producers.contestants import tiles
from producers.contestants.tunable import Chip
from producers.workloads import PRECISIONS, WORKLOADS, Cell

H200 = Chip(232_448, 132)
NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")


def cell(tokens: int, precision: str = "bf16", workload: str = "deepseek-moe-16b") -> Cell:
    w = WORKLOADS[workload]
    shape = (w.experts, w.top_k, w.hidden, w.intermediate)
    return Cell(
        f"{workload}/{precision}/uniform/{tokens}", workload, *shape, precision, "uniform", None, tokens
    )


def tile(*numbers: int) -> dict[str, int]:
    return dict(zip(NAMES, numbers, strict=True))


def test_mean_rows_are_those_of_experts_that_have_any() -> None:
    assert tiles.rows_per_expert(cell(1)) == 1.0
    assert tiles.rows_per_expert(cell(16)) == pytest.approx(96 / (64 * (1 - (1 - 6 / 64) ** 16)))
    assert tiles.rows_per_expert(cell(2048)) == pytest.approx(192, rel=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "interpreter-small"])
@pytest.mark.parametrize("tokens", [1, 16, 128, 2048])
def test_every_candidate_is_legal_and_none_comes_twice(tokens: int, workload: str, precision: str) -> None:
    asked = cell(tokens, precision, workload)
    found = tiles.candidates(asked, H200)
    assert 12 <= len(found) <= 120
    assert len({str(each) for each in found}) == len(found)
    assert all(tiles.legal(each, asked, H200) for each in found)
    costs = [tiles.cost(each, asked, H200) for each in found]
    assert all(a <= b for a, b in pairwise(costs))


# Found by longer searches of vLLM on an H200, and in its files for neighbouring shapes.
@pytest.mark.parametrize(
    ("tokens", "precision", "height", "width", "step"),
    [
        (128, "int8_w8a8", 16, 64, 256),
        (512, "int8_w8a8", 64, 128, 128),
        (2048, "int8_w8a8", 64, 128, 128),
        (2048, "bf16", 128, 256, 64),
        (16, "bf16", 16, 64, 128),
    ],
)
def test_known_good_tiles_are_within_a_first_pass(
    tokens: int, precision: str, height: int, width: int, step: int
) -> None:
    first = tiles.candidates(cell(tokens, precision), H200)[:24]
    shapes = {(each["BLOCK_SIZE_M"], each["BLOCK_SIZE_N"], each["BLOCK_SIZE_K"]) for each in first}
    assert (height, width, step) in shapes


def test_shared_memory_counts_the_bytes_of_each_operand_and_all_stages_but_one() -> None:
    config = tile(128, 256, 64, 16, 8, 4)
    assert tiles.shared_bytes(config, cell(2048)) == 3 * 64 * (128 * 2 + 256 * 2)
    assert tiles.shared_bytes(config, cell(2048, "int8_w8a16")) == 3 * 64 * (128 * 2 + 256)
    assert tiles.shared_bytes(config, cell(2048, "int8_w8a8")) == 3 * 64 * (128 + 256)


def test_what_does_not_fit_is_illegal() -> None:
    small = Chip(101_376, 132)
    deep = tile(128, 128, 64, 1, 8, 5)
    assert tiles.legal(deep, cell(2048), H200)
    assert not tiles.legal(deep, cell(2048), small)
    assert not tiles.legal(tile(128, 256, 64, 1, 4, 3), cell(2048), H200)  # 256 accumulators a thread
    assert not tiles.legal(tile(16, 64, 2048, 1, 4, 2), cell(1), H200)  # a step longer than I


def test_neighbours_differ_in_one_number_by_one_step() -> None:
    config = tile(64, 128, 64, 16, 4, 3)
    found = tiles.neighbours(config, cell(512), H200)
    assert tile(64, 128, 64, 16, 4, 4) in found
    assert tile(32, 128, 64, 16, 4, 3) in found
    assert tile(64, 128, 64, 8, 4, 3) in found
    for each in found:
        changed = [name for name in NAMES if each[name] != config[name]]
        assert len(changed) == 1
    # Keys that are no tiles of ours stay as they are.
    kept = tiles.neighbours({**config, "SPLIT_K": 1}, cell(512), H200)
    assert all(each["SPLIT_K"] == 1 for each in kept)


def test_steps_end_at_the_ends_of_a_scale() -> None:
    assert list(tiles.beside(16, (16, 32, 64))) == [32]
    assert list(tiles.beside(64, (16, 32, 64))) == [32]
    assert list(tiles.beside(48, (16, 32, 64))) == [64, 32]
