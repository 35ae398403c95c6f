"""Draws, quantisation, the reference and the referee's folders."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from producers import referee
from producers.errors import PeerError
from producers.tensors import inputs_sha256, load
from producers.workloads import Cell
from tests.producers.peers import TIMEOUT_S, draw, small_cell, start

CPU = torch.device("cpu")


def big_cell(routing: str, zipf_s: float | None, tokens: int = 4096) -> Cell:
    return Cell(f"w/bf16/{routing}/{tokens}", "w", 64, 6, 8, 8, "bf16", routing, zipf_s, tokens)


def share_of_hottest(ids: torch.Tensor, experts: int = 64) -> torch.Tensor:
    return torch.bincount(ids.flatten().long(), minlength=experts).sort(descending=True).values / ids.shape[0]


def test_uniform_ids_are_distinct_and_even() -> None:
    ids = referee.draw_ids(big_cell("uniform", None), seed=1)
    assert (ids.shape, ids.dtype) == ((4096, 6), torch.int32)
    assert all(len(set(row)) == 6 for row in ids.tolist())
    shares = share_of_hottest(ids)
    assert shares[0] < 6 / 64 * 1.25
    assert shares[-1] > 6 / 64 * 0.75


def test_zipf_ids_have_the_known_skew() -> None:
    """Gumbel top-6 of 64 with s = 1: the hottest expert takes part in 1629 of 2048 rows."""
    ids = referee.draw_ids(big_cell("zipf", 1.0), seed=1)
    assert all(len(set(row)) == 6 for row in ids.tolist())
    assert float(share_of_hottest(ids)[0]) == pytest.approx(0.795, abs=0.02)
    steeper = referee.draw_ids(big_cell("zipf-1.5", 1.5), seed=1)
    assert share_of_hottest(steeper)[0] > share_of_hottest(ids)[0] + 0.1


def test_seed_permutes_the_ranks() -> None:
    hottest = {
        int(referee.draw_ids(big_cell("zipf", 1.0), seed).flatten().mode().values) for seed in range(6)
    }
    assert len(hottest) > 1


def test_draws_repeat_and_do_not_depend_on_precision() -> None:
    first = referee.draw_tokens(small_cell("bf16"), seed=3)
    again = referee.draw_tokens(small_cell("int8_w8a8"), seed=3)
    assert all(torch.equal(first[name], again[name]) for name in first)
    other = referee.draw_tokens(small_cell("bf16"), seed=4)
    assert not any(torch.equal(first[name], other[name]) for name in first)
    assert torch.allclose(first["topk_weights"].sum(dim=1), torch.ones(4))
    assert referee.draw_tokens(small_cell("fp16"), seed=3)["x"].dtype == torch.float16


def test_quantise_rounds_half_to_even_with_scale_absmax_over_127() -> None:
    matrix = torch.tensor([[127.0, -127.0, 0.5, 1.5, 2.5, -0.5], [0.0] * 6, [2.54, 1.27, 0, 0, 0, 0]])
    values, scale = referee.quantise(matrix)
    assert values.tolist() == [[127, -127, 0, 2, 2, 0], [0] * 6, [127, 64, 0, 0, 0, 0]]
    assert scale.tolist() == pytest.approx([1.0, 1.0, 0.02])


def test_reference_by_hand() -> None:
    """Two experts, H = I = 1: silu(g) u w2 in closed form; an id that is no expert adds nothing."""
    weights = {
        "w13": torch.tensor([[[1.0], [2.0]], [[-1.0], [3.0]]]),
        "w2": torch.tensor([[[4.0]], [[5.0]]]),
    }
    tokens = {
        "x": torch.tensor([[2.0], [2.0], [2.0]]),
        "topk_ids": torch.tensor([[0, 1], [1, -1], [7, -1]], dtype=torch.int32),
        "topk_weights": torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]),
    }
    sigmoid = torch.sigmoid(torch.tensor(2.0))
    expert_0 = 2 * sigmoid * 4 * 4
    expert_1 = -2 * (1 - sigmoid) * 6 * 5
    expected = torch.stack([0.25 * expert_0 + 0.75 * expert_1, 0.5 * expert_1, torch.tensor(0.0)])
    assert torch.allclose(referee.reference(tokens, weights)[:, 0], expected)


def test_reference_dequantises() -> None:
    cell = small_cell("int8_w8a16")
    tokens = referee.draw_tokens(cell, 0)
    weights = {}
    for name, shape in (("w13", (64, 64)), ("w2", (64, 32))):
        pairs = [referee.quantise(referee.draw_matrix(*shape, 0, name, e)) for e in range(8)]
        weights[name] = torch.stack([p[0] for p in pairs])
        weights[f"{name}_scale"] = torch.stack([p[1] for p in pairs])
    dense = {name: weights[name].float() * weights[f"{name}_scale"][..., None] for name in ("w13", "w2")}
    assert torch.allclose(referee.reference(tokens, weights), referee.reference(tokens, dense), atol=1e-5)


@pytest.mark.parametrize("family", ["bf16", "fp16", "int8"])
def test_weights_do_not_depend_on_threads(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = {"name": "w", "experts": 5, "hidden": 24, "intermediate": 16}
    hashes = []
    for number, cores in enumerate(({0}, set(range(7)))):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: cores)
        folder = tmp_path / str(number)
        folder.mkdir()
        hashes.append(referee.draw_weights(folder, shape, family, seed=2))
    assert hashes[0] == hashes[1]
    w13 = load(tmp_path / "0", CPU)["w13"].float()
    scale = load(tmp_path / "0", CPU)["w13_scale"][..., None] if family == "int8" else 1.0
    assert w13.shape == (5, 32, 24)
    assert float((w13 * scale).std()) == pytest.approx(24**-0.5, rel=0.05)


def test_referee_process_writes_what_it_says(tmp_path: Path) -> None:
    peer = start("producers.referee", tmp_path)
    with pytest.raises(PeerError, match="before the weights"):
        peer.request("cell", TIMEOUT_S, scratch=str(tmp_path), cell=vars(small_cell()), seed=0)
    drawn = draw(peer, tmp_path, small_cell("int8_w8a8", tokens=16, routing="zipf"))
    folder = Path(drawn.answer["folder"])
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest.values():
        assert hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    hashes = {name: entry["sha256"] for name, entry in manifest.items()}
    assert inputs_sha256({**drawn.weights["sha256"], **hashes}) == drawn.answer["inputs_sha256"]
    ids = load(folder, CPU)["topk_ids"]
    loads = torch.bincount(ids.flatten().long(), minlength=8)
    assert drawn.answer["distinct_experts"] == int((loads > 0).sum())
    assert drawn.answer["max_expert_load"] == int(loads.max())
    assert drawn.answer["flops"] == 32 * 6 * 64 * 32
    again = draw(peer, tmp_path, drawn.cell)
    assert again.answer["inputs_sha256"] == drawn.answer["inputs_sha256"]
    other = draw(peer, tmp_path, drawn.cell, seed=1)
    assert other.answer["inputs_sha256"] != drawn.answer["inputs_sha256"]
    with pytest.raises(PeerError, match="CUDA devices only") as refused:
        peer.request("ceilings", TIMEOUT_S, repeats=1)
    assert refused.value.reason_code == "unsupported"
    peer.request("drop", TIMEOUT_S, folder=str(folder))
    assert not folder.exists()
    peer.close()


def test_hash_of_inputs_covers_every_input_and_not_the_reference() -> None:
    hashes = {name: name * 2 for name in ("x", "topk_ids", "topk_weights", "w13", "w2", "reference")}
    whole = inputs_sha256(hashes)
    assert inputs_sha256({**hashes, "reference": "other"}) == whole
    for name in ("x", "topk_ids", "topk_weights", "w13", "w2"):
        assert inputs_sha256({**hashes, name: "other"}) != whole


def test_cell_of_another_routing_differs() -> None:
    uniform, zipf = small_cell(), small_cell(routing="zipf")
    assert replace(uniform, cell_id=zipf.cell_id, routing="zipf", zipf_s=1.0) == zipf
    assert not torch.equal(referee.draw_tokens(uniform, 0)["x"], referee.draw_tokens(zipf, 0)["x"])
