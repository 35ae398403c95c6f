"""Which tiles of the engines' ``fused_moe_kernel`` are worth trying: a model of a shape on a chip.

vLLM and SGLang name a configuration alike (BLOCK_SIZE_M, _N, _K, GROUP_SIZE_M, num_warps, num_stages), and
their own tuners try some two thousand of them a token count. The model only ranks: it need not be right
about times, just put the good ones among the first few dozen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from producers.contestants.tunable import Chip, Config
from producers.workloads import Cell, weight_family

HEIGHTS = (16, 32, 64, 128, 256)
WIDTHS = (32, 64, 128, 256)
STEPS = (32, 64, 128, 256)
GROUPS = (1, 8, 16, 32, 64)
WARPS = (4, 8)
STAGES = (2, 3, 4, 5)

# Bytes that one SM must have in flight for the full memory rate: rate x latency / SMs, about
# 4.3e12 x 0.9e-6 / 132 on an H200 (Little's law).
_IN_FLIGHT_BYTES = 30_000
_BYTES_PER_S, _OPS_PER_S = 4.3e12, 0.8e15
_REGISTERS, _REGISTERS_OF_A_THREAD, _OTHER_REGISTERS = 65_536, 255, 56
_THREADS_OF_A_WARP = 32
_MOST_BLOCKS = 32
_WGMMA_ROWS = 64  # a lower tile is multiplied by mma.sync, at some half of the rate
_MMA_SHARE, _WGMMA_SHARE, _WIDE_WGMMA_SHARE = 0.35, 0.55, 0.75
_WIDE = 128
_USUAL_STAGES = 4


def rows_per_expert(cell: Cell) -> float:
    """Mean rows of an expert that has any, under uniform routing."""
    missed = (1 - min(cell.top_k, cell.experts) / cell.experts) ** cell.tokens
    return cell.tokens * cell.top_k / (cell.experts * (1 - missed))


def item_bytes(cell: Cell) -> tuple[int, int]:
    """Bytes of an activation and of a weight as the products read them."""
    return (1 if cell.precision == "int8_w8a8" else 2), (1 if weight_family(cell.precision) == "int8" else 2)


def shared_bytes(config: Config, cell: Cell) -> int:
    """Shared memory of the load pipeline, at least: one of the stages is the one being multiplied."""
    activation, weight = item_bytes(cell)
    step = config["BLOCK_SIZE_M"] * activation + config["BLOCK_SIZE_N"] * weight
    buffers = max(1, config["num_stages"] - 1)
    return int(buffers * config["BLOCK_SIZE_K"] * step)


def legal(config: Config, cell: Cell, chip: Chip) -> bool:
    """Whether it fits: shared memory, accumulators in registers, steps that divide nothing to waste."""
    accumulators = (
        config["BLOCK_SIZE_M"] * config["BLOCK_SIZE_N"] / (config["num_warps"] * _THREADS_OF_A_WARP)
    )
    return (
        shared_bytes(config, cell) <= chip.shared_bytes
        and accumulators + _OTHER_REGISTERS <= _REGISTERS_OF_A_THREAD
        and config["BLOCK_SIZE_K"] <= min(cell.hidden, cell.intermediate)
        and config["BLOCK_SIZE_M"] * config["BLOCK_SIZE_N"] >= config["num_warps"] * 128
    )


def cost(config: Config, cell: Cell, chip: Chip) -> float:
    """Seconds of both products by the model; for the ranking only."""
    activation, weight = item_bytes(cell)
    height, width = config["BLOCK_SIZE_M"], config["BLOCK_SIZE_N"]
    active = cell.tokens * cell.top_k / rows_per_expert(cell)
    tiles = active * math.ceil(rows_per_expert(cell) / height)
    per_step = shared_bytes(config, cell)
    threads = config["num_warps"] * _THREADS_OF_A_WARP
    registers = threads * (height * width / threads + _OTHER_REGISTERS)
    resident = max(1, min(chip.shared_bytes // per_step, int(_REGISTERS // registers), _MOST_BLOCKS))
    streamed = min(1.0, resident * per_step / _IN_FLIGHT_BYTES)
    share = _MMA_SHARE if height < _WGMMA_ROWS else _WGMMA_SHARE if width < _WIDE else _WIDE_WGMMA_SHARE
    rate = _OPS_PER_S * share * (2 if cell.precision == "int8_w8a8" else 1)
    total = 0.0
    for channels, reduction in ((2 * cell.intermediate, cell.hidden), (cell.hidden, cell.intermediate)):
        programs = tiles * math.ceil(channels / width)
        waves = programs / (chip.sm_count * resident)
        waves = (waves + math.ceil(waves)) / 2  # programs do not end at the same time
        read = reduction * (width * weight + height * activation) / (_BYTES_PER_S * streamed / chip.sm_count)
        multiply = 2 * height * width * reduction / (rate / chip.sm_count)
        total += waves * resident * max(read, multiply)
    return total


def candidates(cell: Cell, chip: Chip) -> list[Config]:
    """Legal configurations for the token count, the model's cheapest first.

    Heights around the mean rows of an expert; a tile much higher computes padding only. Each (height, width,
    step) comes with two pipelines, so that the first candidates differ in more than their depth.
    """
    rows = rows_per_expert(cell)
    fitting = next((height for height in HEIGHTS if height >= rows), HEIGHTS[-1])
    heights = [h for h in HEIGHTS if fitting // 4 <= h <= 2 * fitting and (h <= fitting or rows > HEIGHTS[0])]
    group = 16 if rows > HEIGHTS[1] else 1
    found = [
        tile
        for height, width, step in itertools.product(heights, WIDTHS, STEPS[1:])
        for tile in _pipelines(height, width, step, group, cell, chip)
    ]
    return sorted(found, key=lambda tile: (cost(tile, cell, chip), -tile["num_stages"]))


def _pipelines(height: int, width: int, step: int, group: int, cell: Cell, chip: Chip) -> list[Config]:
    """Two pairs of warps and stages for a tile: small ones vary in depth, middling ones in warps."""

    def deepest(warps: int, most: int) -> list[Config]:
        tiles = [_tile(height, width, step, group, warps, stages) for stages in STAGES if stages <= most]
        return [tile for tile in tiles if legal(tile, cell, chip)][-1:]

    area = height * width
    few, many = WARPS
    if area < _WGMMA_ROWS * _WIDE:
        pipelines = (few, STAGES[-1]), (few, _USUAL_STAGES - 1)
    elif area < _WIDE * _WIDE:
        pipelines = (few, _USUAL_STAGES), (many, _USUAL_STAGES)
    else:
        pipelines = (many, _USUAL_STAGES), (many, _USUAL_STAGES - 1)
    found: list[Config] = []
    for warps, most in pipelines:
        found += [tile for tile in deepest(warps, most) if tile not in found]
    return found


def neighbours(config: Config, cell: Cell, chip: Chip) -> list[Config]:
    """``config`` with one of its numbers a step up or down, as far as that is legal."""
    found = []
    scales = {
        "num_stages": STAGES,
        "num_warps": WARPS,
        "BLOCK_SIZE_K": STEPS,
        "BLOCK_SIZE_N": WIDTHS,
        "GROUP_SIZE_M": GROUPS,
        "BLOCK_SIZE_M": HEIGHTS,
    }
    for name, scale in scales.items():
        for value in beside(config[name], scale):
            tile = {**config, name: value}
            if legal(tile, cell, chip):
                found.append(tile)
    return found


def beside(value: int, scale: tuple[int, ...]) -> Iterator[int]:
    """The values of an ascending scale just over and just under ``value``."""
    yield from [each for each in scale if each > value][:1]
    yield from [each for each in scale if each < value][-1:]


def _tile(height: int, width: int, step: int, group: int, warps: int, stages: int) -> Config:
    return {
        "BLOCK_SIZE_M": height,
        "BLOCK_SIZE_N": width,
        "BLOCK_SIZE_K": step,
        "GROUP_SIZE_M": group,
        "num_warps": warps,
        "num_stages": stages,
    }
