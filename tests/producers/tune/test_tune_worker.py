"""A real tuning worker over its pipes, under Triton's interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from producers.errors import PeerError
from producers.process import Peer
from producers.tensors import load
from producers.tune.worker import TuneWorker
from tests.producers.peers import HERE, TIMEOUT_S, TOLERANCE, draw, small_cell, start

CPU = torch.device("cpu")
EXAMPLE = "producers.contestants.example:Example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune")


@pytest.fixture(scope="module")
def drawn(folder: Path) -> Iterator[list]:
    referee = start("producers.referee", folder)
    try:
        referee.request("hello", TIMEOUT_S)
        yield [draw(referee, folder / "inputs", small_cell(routing=r, tokens=2)) for r in ("uniform", "zipf")]
    finally:
        referee.close()


def greeted(folder: Path, contestant: str = EXAMPLE) -> Peer:
    worker = start("producers.tune.worker", folder, HERE)
    worker.request("hello", TIMEOUT_S, contestant=contestant, options={})
    return worker


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[Peer]:
    peer = greeted(folder)
    yield peer
    peer.close()


def enter(worker: Peer, drawn: list) -> dict[str, str]:
    worker.request("load", TIMEOUT_S, folder=drawn[0].weights["folder"], precision="bf16")
    cells = [{"folder": each.answer["folder"], "cell": asdict(each.cell)} for each in drawn]
    return worker.request("enter", TIMEOUT_S, cells=cells, tolerance=TOLERANCE["bf16"])["inputs_sha256"]


def test_a_contestant_without_configurations_is_refused(folder: Path) -> None:
    worker = start("producers.tune.worker", folder)
    with pytest.raises(PeerError, match="TorchEager has no configurations to choose from"):
        worker.request(
            "hello", TIMEOUT_S, contestant="producers.contestants.torch_eager:TorchEager", options={}
        )
    worker.close()


def test_candidates_are_canonical_texts_without_the_default(worker: Peer) -> None:
    said = worker.request("candidates", TIMEOUT_S, cell=asdict(small_cell()))
    assert said["default"] == '{"COLUMNS":64,"ROWS":32,"TOKENS":8}'
    assert '{"COLUMNS":32,"ROWS":32,"TOKENS":8}' in said["candidates"]
    assert said["default"] not in said["candidates"]
    around = worker.request("neighbours", TIMEOUT_S, cell=asdict(small_cell()), config=said["candidates"][0])
    assert said["candidates"][0] not in around["candidates"]


def test_a_trial_checks_and_times_every_cell(worker: Peer, drawn: list) -> None:
    received = enter(worker, drawn)
    assert received == {each.cell.cell_id: each.answer["inputs_sha256"] for each in drawn}
    config = '{"COLUMNS":32,"ROWS":16,"TOKENS":4}'
    assert worker.request(
        "compile", TIMEOUT_S, cell=asdict(drawn[0].cell), configs=[config], urgent=False, at_a_time=1
    )["ok"]
    said = worker.request("compiled", TIMEOUT_S, cell=asdict(drawn[0].cell), configs=[config])
    assert said["done"] == {config: True}
    outcomes = worker.request("trial", TIMEOUT_S, config=config, samples=3)["outcomes"]
    assert set(outcomes) == {each.cell.cell_id for each in drawn}
    for outcome in outcomes.values():
        assert len(outcome["times_us"]) == 3
        assert min(outcome["times_us"]) > 0
        assert 0 < outcome["relative_error"] < TOLERANCE["bf16"]
    assert worker.request("leave", TIMEOUT_S)["outcomes"] == {}


def test_a_configuration_that_raises_is_refused_and_the_next_runs(worker: Peer, drawn: list) -> None:
    enter(worker, drawn)
    wrong = worker.request("trial", TIMEOUT_S, config='{"COLUMNS":48,"ROWS":32,"TOKENS":8}', samples=1)
    (outcome,) = wrong["outcomes"].values()  # refused in the first cell, and not tried in the second
    assert outcome["status"] == "refused"
    assert outcome["reason_code"] == "crashed"
    right = worker.request("trial", TIMEOUT_S, config='{"COLUMNS":64,"ROWS":32,"TOKENS":8}', samples=1)
    assert all(each["status"] == "passed" for each in right["outcomes"].values())


def test_wrong_outputs_and_written_inputs_are_seen(folder: Path, drawn: list) -> None:
    worker = greeted(folder, "tunable_saboteur:Saboteur")
    enter(worker, drawn)
    doubled = worker.request("trial", TIMEOUT_S, config='{"factor":2}', samples=1)["outcomes"]
    assert [each["reason_code"] for each in doubled.values()] == ["wrong-output"]
    late = worker.request("trial", TIMEOUT_S, config='{"right_calls":1}', samples=2)["outcomes"]
    assert [each["reason_code"] for each in late.values()] == ["wrong-output"]
    assert worker.request("leave", TIMEOUT_S)["outcomes"] == {}
    enter(worker, drawn)
    worker.request("trial", TIMEOUT_S, config='{"writes":1}', samples=1)
    spoiled = worker.request("leave", TIMEOUT_S)["outcomes"]
    assert {each["reason_code"] for each in spoiled.values()} == {"input-modified"}
    worker.close()


def test_blank_inputs_have_the_layout_of_those_that_are_drawn(drawn: list) -> None:
    worker, each = TuneWorker(), drawn[0]
    blank = worker._blank_inputs(each.cell).named()
    loaded = {
        name: t
        for folder in (each.weights, each.answer)
        for name, t in load(Path(folder["folder"]), CPU).items()
    }
    loaded.pop("reference")
    assert {n: (t.shape, t.dtype, t.stride()) for n, t in blank.items()} == {
        n: (t.shape, t.dtype, t.stride()) for n, t in loaded.items()
    }
    ids = blank["topk_ids"]
    assert bool(((ids >= 0) & (ids < each.cell.experts)).all())
    int8 = worker._blank_inputs(small_cell("int8_w8a8"))
    assert (int8.w13.dtype, int8.w2.dtype, int8.x.dtype) == (torch.int8, torch.int8, torch.bfloat16)
    assert int8.w13_scale is not None
    assert int8.w13_scale.shape == int8.w13.shape[:2]
    # An engine may remember a weight by its address: the same ones come again.
    again = worker._blank_inputs(small_cell("int8_w8a16", tokens=1))
    assert again.w13 is int8.w13
    assert worker._blank_inputs(each.cell).w13 is blank["w13"]


def test_tables_keep_what_is_there_of_other_cells(worker: Peer, tmp_path: Path) -> None:
    for tokens, config in ((2, '{"ROWS":16}'), (4, '{"ROWS":64}'), (2, '{"ROWS":32}')):
        chosen = [{"cell": asdict(small_cell(tokens=tokens)), "config": config}]
        said = worker.request("tables", TIMEOUT_S, folder=str(tmp_path), chosen=chosen)
    assert said["files"] == [str(tmp_path / "example.json")]
    table = json.loads((tmp_path / "example.json").read_text(encoding="utf-8"))
    assert table["interpreter-small/bf16/2"] == {"ROWS": 32}
    assert table["interpreter-small/bf16/4"] == {"ROWS": 64}
