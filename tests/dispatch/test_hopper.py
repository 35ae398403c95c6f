"""The Hopper families against the definition: precisions, ids, tiles, layouts, what is not finite."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dispatch import Precision, UnsupportedError, kernels, out_of_range_flag
from dispatch.config import MoeConfig, Problem, TileConfig
from dispatch.device import device_facts
from dispatch.kernels.hopper.stream import has_halves
from tests.dispatch.inputs import Inputs, make
from tests.dispatch.test_kernel_cases import CASES, run_case

# Interpreted products run over padding rows too, whose workspace may hold NaN or infinity: numpy warns where
# a device does not. What padding computes is never stored, and the tests say what is.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero):RuntimeWarning")

FAMILIES = ["vector", "stream", "tiled"]
# Two experts get several rows, one gets none, and one token names no expert for its second choice.
FEW_IDS = [[0, 3], [3, -1], [1, 3]]
# Where one precision a family is enough, each comes up.
PRECISION_OF = {"vector": "int8_w8a16", "stream": "int8_w8a8", "tiled": "bf16"}


def small(family: str, precision: str = "bf16", *, device: torch.device, **changes: int) -> Inputs:
    """Draw a call of a few tokens; one for ``vector``, which is made for it."""
    ids = FEW_IDS[1:2] if family == "vector" else FEW_IDS
    sizes = {"hidden": 256, "intermediate": 128, "experts": 4, **changes}
    return make(
        len(ids),
        **sizes,
        top_k=2,
        precision=precision,
        device=device,
        ids=torch.tensor(ids, dtype=torch.int32),
    )


# --- the definition


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_computes_the_definition_in_every_precision(family, precision, device):
    """384 is no power of two, so that masks of whole rows matter, and takes several blocks of channels."""
    inputs = small(family, precision, device=device, hidden=384, intermediate=128)
    inputs.check(inputs.run(family))


@pytest.mark.parametrize("precision", list(Precision))
def test_vector_computes_several_tokens(precision, device):
    ids = torch.tensor([[0, 3], [-1, 1], [3, 3]], dtype=torch.int32)
    inputs = make(3, 128, 192, 5, 2, precision, device=device, ids=ids)
    inputs.check(inputs.run("vector"))


@pytest.mark.parametrize("family", FAMILIES)
def test_int8_weights_meet_fp16_activations(family, device):
    inputs = small(family, "int8_w8a16", device=device)
    inputs = inputs.with_(x=inputs.x.half())
    inputs.check(inputs.run(family))


def many_experts(family: str, experts: int, top_k: int, device: torch.device) -> None:
    """Run a call of one or two tokens."""
    tokens = 1 if family == "vector" else 2
    inputs = make(tokens, 128, 128, experts, top_k, device=device, seed=experts)
    inputs.check(inputs.run(family))


@pytest.mark.parametrize(("experts", "top_k"), [(5, 5), (60, 3)])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_number_of_experts_and_choices(family, experts, top_k, device):
    many_experts(family, experts, top_k, device)


@pytest.mark.slow
@pytest.mark.parametrize(("experts", "top_k"), [(160, 6), (257, 7)])
@pytest.mark.parametrize("family", FAMILIES)
def test_many_experts(family, experts, top_k, device):
    many_experts(family, experts, top_k, device)


# --- tiles


def run_with(inputs: Inputs, family: str, gate_up: TileConfig, down: TileConfig, monkeypatch) -> torch.Tensor:
    """Run with tiles of one's own."""
    found = kernels.load(family)
    monkeypatch.setattr(type(found), "configure", lambda *_: MoeConfig(gate_up, down, "test"))
    # What was decided for a layout is kept: begin without it.
    monkeypatch.setattr("dispatch.moe._prepared", {})
    return inputs.run(family)


@pytest.mark.parametrize(
    ("count", "precision"),
    [
        (1, "bf16"),
        (16, "bf16"),
        (17, "bf16"),
        (32, "bf16"),
        (33, "bf16"),
        (16, "int8_w8a16"),
        (49, "int8_w8a8"),
    ],
)
def test_the_last_tile_of_an_expert_may_be_half_as_high(count, precision, device, monkeypatch):
    """One row, half a tile of 32, one more, a whole tile, one more than that, and one more than a tile and a half."""
    ids = torch.full((count, 1), 1, dtype=torch.int32)
    inputs = make(count, 128, 128, 3, 1, precision, device=device, ids=ids)
    tile = TileConfig(32, 128, 128, 8, 2, group_m=4)
    inputs.check(run_with(inputs, "tiled", tile, tile, monkeypatch))


@pytest.mark.parametrize(
    ("count", "precision"), [(1, "bf16"), (16, "int8_w8a16"), (17, "bf16"), (33, "int8_w8a8"), (40, "bf16")]
)
def test_the_last_tile_of_stream_may_be_half_as_high(count, precision, device, monkeypatch):
    ids = torch.full((count, 1), 1, dtype=torch.int32)
    inputs = make(count, 128, 128, 3, 1, precision, device=device, ids=ids)
    gate_up, down = TileConfig(32, 64, 128, 4, 2), TileConfig(32, 64, 128, 4, 2)
    shape = Problem(count, 1, 3, 128, 128, Precision(precision), device_facts(device))
    assert has_halves(shape, MoeConfig(gate_up, down, "test"))
    inputs.check(run_with(inputs, "stream", gate_up, down, monkeypatch))


@pytest.mark.parametrize(("count", "precision"), [(16, "bf16"), (17, "int8_w8a16"), (33, "int8_w8a8")])
def test_stream_with_any_number_of_rows_of_an_expert(count, precision, device):
    ids = torch.full((count, 1), 1, dtype=torch.int32)
    inputs = make(count, 128, 128, 3, 1, precision, device=device, ids=ids)
    inputs.check(inputs.run("stream"))


# Steps over several blocks, one group of columns a step, several channel tiles, several groups of row tiles.
OTHER_TILES = {
    "vector": (TileConfig(16, 64, 128, 4, 1), TileConfig(16, 128, 64, 4, 1)),
    "stream": (TileConfig(32, 64, 128, 4, 3), TileConfig(32, 128, 64, 4, 3)),
    "tiled": (TileConfig(16, 64, 64, 8, 3, group_m=1), TileConfig(16, 128, 64, 8, 3, group_m=3)),
}


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_other_tiles_change_the_result_by_rounding_only(family, precision, device, monkeypatch):
    inputs = small(family, precision, device=device)
    inputs.check(run_with(inputs, family, *OTHER_TILES[family], monkeypatch))


# --- ids


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_that_name_no_expert_are_dropped_and_too_large_ones_set_the_flag(family, dtype, device):
    """5 and 7 lie between E and the next power of two, which a plan might know."""
    ids = torch.tensor([[5, 0, -1], [7, -1, 64], [1, 1, 4]], dtype=dtype)
    inputs = make(3, 128, 128, 5, 3, device=device, ids=ids)
    result = inputs.run(family)
    inputs.check(result)
    assert not result[1].any()
    flag = out_of_range_flag(device)
    assert flag.item() == 1
    flag.zero_()
    inputs.with_(topk_ids=ids.clamp(max=4).to(device)).run(family)
    assert flag.item() == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_64_bit_id_is_not_cut_to_a_valid_one(family, device):
    ids = torch.tensor([[2**32 + 1, 0], [1, -(2**32)]], dtype=torch.int64)
    inputs = make(2, 128, 128, 5, 2, device=device, ids=ids)
    inputs.check(inputs.run(family))
    assert out_of_range_flag(device).item() == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_no_id_at_all_makes_zeros(family, device):
    ids = torch.full((2, 2), -1, dtype=torch.int32)
    inputs = make(2, 128, 128, 5, 2, PRECISION_OF[family], device=device, ids=ids)
    out = torch.full_like(inputs.x, torch.nan)
    assert not inputs.run(family, out=out).any()
    assert out_of_range_flag(device).item() == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_an_id_twice_in_a_row_adds_up(family, device):
    ids = torch.full((2, 3), 3, dtype=torch.int32)
    inputs = make(2, 128, 128, 5, 3, device=device, ids=ids)
    inputs.check(inputs.run(family))


# --- what is not finite, and what nobody wrote


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_nan_of_an_expert_that_nobody_asks_for_stays_out(family, precision, device):
    """Expert 2, and for ``vector`` expert 0 too: a choice without an expert must not read it as its own."""
    inputs = small(family, precision, device=device)
    clean = inputs.run(family)
    for expert in (0, 2) if family == "vector" else (2,):
        assert not (inputs.topk_ids == expert).any()
        for name in ("w13", "w2") if precision == "bf16" else ("w13_scale", "w2_scale"):
            getattr(inputs, name)[expert] = torch.nan
    assert torch.equal(clean, inputs.run(family))


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_that_are_not_finite_spoil_their_own_results_only(family, precision, device):
    ids = torch.tensor([[0, 3], [3, 0], [0, 3], [3, 0]], dtype=torch.int32)
    inputs = make(4, 128, 128, 4, 2, precision, device=device, ids=ids)
    clean = inputs.run(family)
    inputs.x[1:, 7] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    result = inputs.run(family)
    assert not torch.isfinite(result[1:]).any()
    assert torch.equal(result[0], clean[0])


def _poison(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.fill_(torch.nan if tensor.is_floating_point() else torch.iinfo(tensor.dtype).max)


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16", "int8_w8a8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_reads_what_the_call_did_not_write(family, precision, device, monkeypatch):
    """Workspaces start as NaN, or as the largest integer where they hold numbers of rows."""
    ids = torch.tensor([[0, -1], [-1, -1], [3, 0], [9, 1]], dtype=torch.int32)
    inputs = make(4, 128, 128, 5, 2, precision, device=device, ids=ids)
    clean = inputs.run(family)
    empty, new_empty = torch.empty, torch.Tensor.new_empty
    monkeypatch.setattr(torch, "empty", lambda *a, **k: _poison(empty(*a, **k)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: _poison(new_empty(*a, **k)))
    assert torch.isnan(inputs.x.new_empty(2)).all()
    poisoned = inputs.run(family)
    monkeypatch.undo()
    assert torch.equal(clean, poisoned)
    inputs.check(poisoned)


# --- layouts


@pytest.mark.parametrize("family", FAMILIES)
def test_strides_of_x_and_out_are_honoured_and_out_may_be_x(family, device):
    inputs = small(family, PRECISION_OF[family], device=device)
    expected = inputs.run(family)
    rows = len(inputs.x)
    wide = torch.full((rows, 512), torch.nan, dtype=inputs.x.dtype, device=device)
    x = wide[:, :256].copy_(inputs.x)
    out = torch.full((rows, 320), 7.0, dtype=inputs.x.dtype, device=device)
    inputs.with_(x=x).run(family, out=out[:, :256])
    assert torch.equal(out[:, :256], expected)
    assert (out[:, 256:] == 7).all()
    inputs.with_(x=x).run(family, out=x)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_strides_of_weights_are_honoured(family, device):
    inputs = small(family, PRECISION_OF[family], device=device)
    expected = inputs.run(family)

    def padded(w: torch.Tensor) -> torch.Tensor:
        wide = torch.full((w.shape[0] * 2, w.shape[1] + 1, w.shape[2] + 16), 100).to(w.dtype).to(device)
        view = wide[::2, 1:, : w.shape[2]]
        view.copy_(w)
        return view

    changed = inputs.with_(w13=padded(inputs.w13), w2=padded(inputs.w2))
    assert torch.equal(expected, changed.run(family))


# --- the recorded cases


# Few enough programs for the interpreter.
VECTOR_CASES = ["zero_tokens", "one_token", "minus_one_rows", "all_minus_one", "id_too_large"]
VECTOR_CASES += ["repeated_id_in_row"]
# 192 columns are no multiple of a step of 128, 511 of nothing.
REFUSED = {
    "vector": {"odd_dims": "hidden size 511 is no multiple of 16"},
    "stream": {
        "odd_dims": "hidden size 511 is no multiple of 64",
        "experts_not_pow2": "intermediate size 192 is no multiple of 128",
    },
    "tiled": {
        "odd_dims": "hidden size 511 is no multiple of 128",
        "experts_not_pow2": "intermediate size 192 is no multiple of 128",
    },
}
ACCEPTED = [(family, name) for family in FAMILIES for name in CASES if name not in REFUSED[family]]
# Stream and tiled take turns, as they share the plan and the sum; many tokens take the interpreter long.
LONG = {"all_to_one", "hot_pair", "strided_cols"}
DEFAULT = [("vector", name) for name in VECTOR_CASES]
DEFAULT += [
    (("stream", "tiled")[len(name) % 2], name) for name in CASES if name not in {*REFUSED["tiled"], *LONG}
]


@pytest.mark.parametrize(("family", "name"), DEFAULT)
def test_case(family, name, device):
    run_case(name, family, device, full=False)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), sorted({*ACCEPTED} - {*DEFAULT}))
def test_case_that_takes_longer(family, name, device):
    run_case(name, family, device, full=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_that_a_family_cannot_run_are_refused_by_name_and_auto_goes_on(family, device):
    for name, sentence in REFUSED[family].items():
        case = replace(CASES[name], tokens=2, interpreted=None)
        inputs = case.make(device, full=True)
        with pytest.raises(UnsupportedError, match=f"kernel '{family}': {sentence}"):
            inputs.run(family)
    inputs.check(inputs.run("auto"))
