"""The kernel families of ``dispatch`` as a search sees them: tiles in, a launch out.

What a family can run is its own matter: a block that is no part of its sizes is left out here, and whatever
else it refuses or computes wrongly is seen when it is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import torch

import dispatch
from dispatch import kernels
from dispatch.config import MoeConfig, Problem, TileConfig, shared_bytes
from dispatch.errors import DispatchError
from dispatch.kernels.call import Call
from dispatch.kernels.compiled import Kernels
from dispatch.kernels.family import MoeTensors
from producers.contestants.base import Inputs, Launch
from producers.contestants.tiles import beside as steps
from producers.contestants.tunable import Config

_POWERS = tuple(1 << n for n in range(2, 12))
_SCALES: dict[str, tuple[int, ...]] = {
    "num_stages": (1, 2, 3, 4, 5, 6),
    "num_warps": (4, 8),
    "block_k": _POWERS,
    "block_n": _POWERS,
    "group_m": (1, 2, 4, 8, 16),
}
_HEIGHTS = (16, 32, 64, 128)
# A product whose tile is masked at the edge takes any block; the others need a whole number of them.
_MASKED = frozenset({"naive", "persistent"})
_MASKED_STEPS = _MASKED | {"vector"}
# Numbers of a tile that a family does not look at: another value would be the same kernel again.
_NO_PIPELINE = frozenset({"num_stages", "group_m"})
_FIXED = {
    "vector": {"gate_up": _NO_PIPELINE, "down": _NO_PIPELINE},
    "stream": {"gate_up": frozenset({"block_n", "group_m"}), "down": frozenset({"group_m"})},
}


def as_config(kernel: str, tiles: MoeConfig) -> Config:
    """A family and its tiles as the lake keeps them."""
    return {"kernel": kernel, "gate_up": asdict(tiles.gate_up), "down": asdict(tiles.down)}


def from_config(config: Config) -> tuple[str, MoeConfig]:
    """The family and its tiles of :func:`as_config`."""
    tiles = MoeConfig(TileConfig(**config["gate_up"]), TileConfig(**config["down"]), "tuned", "being tried")
    return str(config["kernel"]), tiles


def beside(kernel: str, tiles: MoeConfig, problem: Problem, most_shared: int) -> list[Config]:
    """``tiles`` with one number a step up or down: of a product, or the height of both."""
    fixed = _FIXED.get(kernel, {})
    found = [
        *(replace(tiles, gate_up=t) for t in _varied(tiles.gate_up, fixed.get("gate_up", frozenset()))),
        *(replace(tiles, down=t) for t in _varied(tiles.down, fixed.get("down", frozenset()))),
    ]
    for height in steps(tiles.block_m, _HEIGHTS) if kernel != "vector" else ():
        gate_up, down = (replace(tile, block_m=height) for tile in (tiles.gate_up, tiles.down))
        found.append(replace(tiles, gate_up=gate_up, down=down))
    return [as_config(kernel, each) for each in found if _fits(kernel, each, problem, most_shared)]


def others(kernel: str, problem: Problem) -> list[Config]:
    """The other families that would take the problem, each with its own tiles."""
    willing = [kernels.load(name) for name in kernels.FAMILIES if name != kernel]
    return [
        as_config(family.name, family.configure(problem))
        for family in willing
        if family.refuses(problem) is None
    ]


def launch(kernel: str, tiles: MoeConfig, problem: Problem, inputs: Inputs) -> Launch:
    """A call of the family with these tiles, allocating its output as :func:`dispatch.fused_moe` does.

    Raises:
        DispatchError: the family does not take the problem.
    """
    family = kernels.load(kernel)
    reason = family.refuses(problem)
    if reason is not None:
        raise DispatchError(f"kernel '{kernel}': {reason}")
    compiled: Kernels = {}
    flag = dispatch.out_of_range_flag(inputs.x.device)

    def run() -> torch.Tensor:
        out = torch.empty_like(inputs.x)
        tensors = MoeTensors(
            x=inputs.x,
            w13=inputs.w13,
            w2=inputs.w2,
            topk_weights=inputs.topk_weights,
            topk_ids=inputs.topk_ids,
            w13_scale=inputs.w13_scale,
            w2_scale=inputs.w2_scale,
            out_of_range=flag,
            out=out,
        )
        family.run(tensors, problem, tiles, Call(compiled, inputs.x.device))
        return out

    return run


def _varied(tile: TileConfig, fixed: frozenset[str]) -> Iterator[TileConfig]:
    for name in [name for name in _SCALES if name not in fixed]:
        for value in steps(getattr(tile, name), _SCALES[name]):
            changed: dict[str, Any] = {name: value}
            yield replace(tile, **changed)


def _fits(kernel: str, tiles: MoeConfig, problem: Problem, most_shared: int) -> bool:
    for tile, matrices, channels, reduction in (
        (tiles.gate_up, 2, problem.intermediate, problem.hidden),
        (tiles.down, 1, problem.hidden, problem.intermediate),
    ):
        if kernel not in _MASKED and channels % tile.block_n:
            return False
        if kernel not in _MASKED_STEPS and reduction % tile.block_k:
            return False
        # One of the stages is the one being multiplied and need not be held.
        held = replace(tile, num_stages=max(1, tile.num_stages - 1))
        if kernel != "vector" and shared_bytes(held, problem.precision, matrices) > most_shared:
            return False
    return True
