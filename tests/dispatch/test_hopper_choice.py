"""Which Hopper family a call gets, with which tiles and launches, and what they refuse; no GPU is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dispatch
from dispatch import Precision, UnsupportedError, kernels, moe
from dispatch.config import DeviceFacts, Problem
from dispatch.kernels.compiled import Kernel
from dispatch.kernels.hopper.stream import has_halves
from dispatch.resources import DEVICES
from tests.dispatch.inputs import make

H200 = DEVICES["h200"]
FAMILIES = ["vector", "stream", "tiled"]


def problem(tokens: int, precision: str, device: DeviceFacts = H200) -> Problem:
    """Make a call of the default workload."""
    return Problem(tokens, 6, 64, 2048, 1408, Precision(precision), device)


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize(
    ("tokens", "family"),
    [
        (1, "vector"), (4, "stream"), (16, "stream"), (64, "stream"), (128, "stream"), (512, None), (2048, "tiled"),
    ],
)  # fmt: skip
def test_the_default_token_counts_on_an_h200(tokens, family, precision, monkeypatch):
    """With 512 tokens an expert has 48 rows: two limbs make 96 lines of them, which is past stream's."""
    if family is None:
        family = "tiled" if precision is Precision.INT8_W8A16 else "stream"
    monkeypatch.setattr(moe, "device_facts", lambda _: H200)
    plan = dispatch.explain(
        tokens=tokens, top_k=6, experts=64, hidden=2048, intermediate=1408, precision=precision, device="cpu"
    )
    assert plan.kernel == family
    launches = {"vector": 2, "stream": 4, "tiled": 5 if precision.int8_weights else 4}
    assert plan.launches == launches[family]
    assert plan.config.gate_up.block_m == plan.config.down.block_m


@pytest.mark.parametrize("precision", list(Precision))
def test_the_choice_changes_twice_over_all_token_counts(precision):
    """No count in between goes back to a family for fewer tokens."""
    order = [kernels.choose(problem(tokens, precision), "auto").name for tokens in range(1, 2100, 7)]
    ranks = [FAMILIES.index(name) for name in order]
    assert ranks == sorted(ranks)
    assert {*order} == {*FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_another_device_is_refused_by_name_and_auto_takes_a_general_family(family):
    a100 = DEVICES["a100"]
    with pytest.raises(UnsupportedError, match=f"kernel '{family}': .*9.0 and NVIDIA A100-SXM4-80GB has"):
        kernels.choose(problem(16, "bf16", a100), family)
    assert kernels.choose(problem(16, "bf16", a100), "auto").name == "naive"


def test_auto_falls_back_where_no_hopper_family_takes_the_size():
    odd = replace(problem(16, "bf16"), hidden=511, intermediate=176)
    assert kernels.choose(odd, "auto").name == "naive"
    # 192 columns are no whole steps of stream, but whole programs of vector.
    narrow = replace(problem(1, "bf16"), intermediate=192)
    assert kernels.choose(narrow, "auto").name == "vector"
    assert kernels.choose(replace(narrow, tokens=16), "auto").name == "naive"


def test_vector_refuses_tokens_past_its_grid_or_its_indices():
    """A grid's second dimension ends at 65535, and a slot's offset is 32 bits wide."""
    vector = kernels.load("vector")
    assert vector.refuses(problem(65535, "bf16")) is None
    assert "65536 tokens are past its indices" in str(vector.refuses(problem(65536, "bf16")))
    wide = replace(problem(30000, "bf16"), intermediate=14336)
    assert "30000 tokens are past its indices" in str(vector.refuses(wide))
    assert vector.refuses(replace(wide, tokens=24000)) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_the_interpreter_is_left_to_the_general_families(family):
    interpreted = problem(1 if family == "vector" else 64, "bf16", DeviceFacts("cpu-interpreter", (0, 0), 1))
    assert kernels.choose(interpreted, "auto").name in {"naive", "persistent"}
    assert kernels.choose(interpreted, family).configure(interpreted).source == "interpreter"


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_launches_are_counted_as_they_are_made(family, precision, device, monkeypatch):
    """Only the first kernel of a call is launched plainly; the others start before its end."""
    made = []
    monkeypatch.setattr(
        Kernel, "__call__", lambda self, grid, *_: made.append((self._function.__name__, grid))
    )
    inputs = make(3, 256, 128, 5, 2, precision, device=device)
    shape = Problem(3, 2, 5, 256, 128, Precision(precision), H200)
    found = kernels.load(family)
    monkeypatch.setattr(moe, "device_facts", lambda _: H200)
    monkeypatch.setattr(moe, "_prepared", {})
    inputs.run(family)
    assert len(made) == found.launches(shape)
    (prepared,) = moe._prepared.values()
    plain = [name for name, kernel in prepared.kernels.items() if "launch_pdl" not in kernel._options]
    assert plain == (["gate_up"] if family == "vector" else ["plan"])
    config = found.configure(shape)
    if family == "vector":
        assert made[0][1] == (6 * 128 // config.gate_up.block_n, 1, 1)
        assert made[1][1] == (256 // config.down.block_n, 3, 1)
    else:
        # 6 slots over 5 experts in tiles of at least 16 rows: at most one tile a slot and an expert.
        planners = 1 if family == "stream" else 5
        assert made[0][1] == (planners + (3 if precision != "bf16" else 0), 1, 1)
        assert made[1][1][0] == 5 * (128 // config.gate_up.block_n)
        assert made[-2][1][0] == 5 * (256 // config.down.block_n)
        assert made[-1] == ("combine_kernel", (3, 1, 1))


@pytest.mark.parametrize(
    ("tokens", "height", "halves"), [(16, 16, False), (128, 32, True), (256, 64, True), (512, 64, False)]
)
def test_stream_takes_higher_tiles_with_a_lower_last_one_where_experts_have_some_rows(tokens, height, halves):
    """1.5, 12, 24 and 48 rows an expert on average; at 48 most experts fill more than half a tile of 64."""
    shape = problem(tokens, "bf16")
    config = kernels.load("stream").configure(shape)
    assert (config.gate_up.block_m, config.down.block_m) == (height, height)
    assert has_halves(shape, config) is halves
