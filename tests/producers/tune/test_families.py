"""The families of dispatch as a search sees them."""

from __future__ import annotations

import json

import pytest

from dispatch import kernels
from dispatch.config import DeviceFacts, Problem, TileConfig
from dispatch.errors import DispatchError
from dispatch.precision import Precision
from producers.contestants import families

H200 = DeviceFacts("NVIDIA H200", (9, 0), 132)
MOST_SHARED = 232_448


def problem(tokens: int, precision: str = "bf16") -> Problem:
    return Problem(tokens, 6, 64, 2048, 1408, Precision(precision), H200)


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("tokens", [1, 16, 512, 2048])
def test_every_neighbour_divides_what_the_family_does_not_mask(tokens: int, precision: str) -> None:
    asked = problem(tokens, precision)
    family = kernels.choose(asked, "auto")
    tiles = family.configure(asked)
    found = families.beside(family.name, tiles, asked, MOST_SHARED)
    assert len(found) >= 6
    assert len({json.dumps(each, sort_keys=True) for each in found}) == len(found)
    base = families.as_config(family.name, tiles)
    assert base not in found
    for each in found:
        gate_up, down = TileConfig(**each["gate_up"]), TileConfig(**each["down"])
        assert gate_up.block_m == down.block_m
        assert asked.intermediate % gate_up.block_n == asked.hidden % down.block_n == 0
        if family.name != "vector":
            assert asked.hidden % gate_up.block_k == asked.intermediate % down.block_k == 0
        changed = [
            (product, name)
            for product in ("gate_up", "down")
            for name in each[product]
            if each[product][name] != base[product][name]
        ]
        assert len(changed) == 1 or {name for _, name in changed} == {"block_m"}


def test_what_a_family_does_not_look_at_is_not_varied() -> None:
    asked = problem(16)
    found = families.beside("stream", kernels.load("stream").configure(asked), asked, MOST_SHARED)
    assert len({each["gate_up"]["block_n"] for each in found}) == 1
    assert len({each["gate_up"]["num_stages"] for each in found}) > 1


def test_a_configuration_survives_its_way_as_json() -> None:
    tiles = kernels.load("tiled").configure(problem(2048))
    kernel, back = families.from_config(json.loads(json.dumps(families.as_config("tiled", tiles))))
    assert (kernel, back.gate_up, back.down) == ("tiled", tiles.gate_up, tiles.down)


def test_other_families_come_with_their_own_tiles() -> None:
    asked = problem(512)
    found = families.others("stream", asked)
    assert {each["kernel"] for each in found} == {"naive", "persistent", "vector", "tiled"}
    (tiled,) = [each for each in found if each["kernel"] == "tiled"]
    assert tiled == families.as_config("tiled", kernels.load("tiled").configure(asked))


def test_a_family_that_refuses_the_problem_says_so() -> None:
    ampere = DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108)
    asked = Problem(16, 6, 64, 2048, 1408, Precision("bf16"), ampere)
    with pytest.raises(DispatchError, match="kernel 'stream': "):
        families.launch("stream", kernels.load("stream").configure(problem(16)), asked, None)  # type: ignore[arg-type]
