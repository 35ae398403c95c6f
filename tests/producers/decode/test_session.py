"""Whole runs on a tiny model: what is checked, timed, refused and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from producers.decode import session as sessions
from producers.decode.clock import clock_of
from producers.decode.decoders import EagerDecoder
from producers.decode.plan import WARM_UP_STEPS, make_plan
from producers.decode.recorder import DecodeRecorder
from producers.decode.session import Bounds, Session
from producers.errors import StoppedError
from producers.failures import Failure
from tests.producers.decode.conftest import DEVICE, rows

STEPS, REPEATS = 2, 2
BOUNDS = Bounds(1.0, {"bf16": 0.0, "int8_w8a16": 0.0, "int8_w8a8": 0.5})
SUBJECT = {"model": "tiny-mixtral", "prompt_tokens": 5, "prompt_sha256": "p"}
Start = Callable[..., Session]


@pytest.fixture
def start(tiny: Any, prompt: torch.Tensor, tmp_path: Path) -> Start:
    def make(*configs: str, poll: Callable[[], None] = lambda: None, **options: Any) -> Session:
        plan = make_plan(
            model="tiny-mixtral", configs=configs, prompt_tokens=5, steps=STEPS, repeats=REPEATS, seed=0
        )
        recorder = DecodeRecorder(tmp_path / "lake", "run", SUBJECT)
        return Session(plan, tiny, prompt, BOUNDS, recorder, poll, lambda _: None, **options)

    return make


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_what_passes_is_timed_in_every_repeat(start: Start, lake: Path) -> None:
    session = start("grouped_mm_bf16", "dispatch_bf16", "dispatch_int8_w8a16")
    assert session.run() == []
    checked = {row["config"]: row for row in rows(lake, "decode_configs")}
    names = ["stock_eager_bf16", "grouped_mm_bf16", "dispatch_bf16", "dispatch_int8_w8a16"]
    assert list(checked) == names
    positions = 1 + WARM_UP_STEPS + STEPS
    for row in checked.values():
        assert (row["status"], row["stage"], row["positions"]) == ("passed", "check", positions)
        assert (row["clock"], row["cache"], row["reference"]) == (clock_of(DEVICE), "dynamic", names[0])
    assert checked["stock_eager_bf16"]["disagreements"] == 0
    # A prompt and three steps in each of two layers: the kernel that ran, not the one that was asked for.
    assert [checked[name]["kernel_calls"] for name in names] == [None, None, positions, positions]
    assert checked["dispatch_bf16"]["kernels"] in {"naive", "persistent", "vector"}
    # int8 weights are half as many bytes, and everything else is the same model.
    bf16, int8 = (checked[name]["weight_bytes"] for name in names[2:])
    assert 0.5 * bf16 < int8 < bf16

    timed = rows(lake, "decode_steps")
    assert sorted({(r["config"], r["repeat"], r["step"]) for r in timed}) == sorted(
        (name, repeat, step)
        for name in names
        for repeat in range(REPEATS)
        for step in range(WARM_UP_STEPS, WARM_UP_STEPS + STEPS)
    )
    assert all(row["time_us"] > 0 for row in timed)
    assert {row["weight_bytes"] for row in timed if row["config"] == "dispatch_bf16"} == {bf16}
    outputs = {(row["config"], row["output_sha256"]) for row in timed}
    assert len(outputs) == len(names)  # each repeats itself
    assert len(session.timed["dispatch_bf16"].rates) == REPEATS


def test_the_stock_experts_are_as_they_were_after_int8(start: Start, tiny: Any, prompt: torch.Tensor) -> None:
    before = tiny(input_ids=prompt).logits
    start("dispatch_int8_w8a8").run()
    tiny.set_experts_implementation("eager")
    assert torch.equal(tiny(input_ids=prompt).logits, before)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="there is a CUDA device")
def test_a_graph_without_a_cuda_device_is_a_refusal_in_the_lake(start: Start, lake: Path) -> None:
    assert start("dispatch_graph_bf16", "fused_graph_bf16").run() == [
        "dispatch_graph_bf16",
        "fused_graph_bf16",
    ]
    refused = [row for row in rows(lake, "decode_configs") if row["status"] == "refused"]
    assert [(r["config"], r["reason_code"], r["fault"], r["graph"], r["layers"]) for r in refused] == [
        ("dispatch_graph_bf16", "unsupported", "contestant", True, "transformers"),
        ("fused_graph_bf16", "unsupported", "contestant", True, "fused"),
    ]
    assert {row["config"] for row in rows(lake, "decode_steps")} == {"stock_eager_bf16"}


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a CUDA device")
def test_steps_are_captured_and_replayed(start: Start, lake: Path) -> None:
    names = ("dispatch_graph_bf16", "fused_graph_bf16", "dispatch_graph_int8_w8a16", "fused_graph_int8_w8a8")
    assert start(*names).run() == []
    passed = {row["config"]: row for row in rows(lake, "decode_configs")}
    assert all(passed[name]["graph"] and passed[name]["kernel_calls"] >= 5 for name in names)


def experts(model: Any) -> Any:
    return model.model.layers[1].mlp.experts


def test_experts_that_compute_something_else_are_refused(start: Start, lake: Path, tiny: Any) -> None:
    weights = experts(tiny).gate_up_proj
    original = EagerDecoder._forward

    def swapped(self: EagerDecoder, ids: torch.Tensor) -> None:
        """Gate and up rows change places wherever dispatch runs."""
        if self._model.config._experts_implementation == "dispatch":
            weights.copy_(weights.roll(weights.shape[1] // 2, dims=1))
            original(self, ids)
            weights.copy_(weights.roll(weights.shape[1] // 2, dims=1))
        else:
            original(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EagerDecoder, "_forward", swapped)
        assert start("dispatch_bf16").run() == ["dispatch_bf16"]
    (row,) = [row for row in rows(lake, "decode_configs") if row["config"] == "dispatch_bf16"]
    assert (row["status"], row["reason_code"], row["fault"]) == ("refused", "wrong-output", "contestant")
    assert row["largest_gap_logits"] > 1.0  # what was found stands beside the refusal
    assert not [r for r in rows(lake, "decode_steps") if r["config"] == "dispatch_bf16"]


def test_a_kernel_that_did_not_run_is_no_candidate(start: Start, lake: Path) -> None:
    original = EagerDecoder._forward

    def stock_instead(self: EagerDecoder, ids: torch.Tensor) -> None:
        self._model.set_experts_implementation("eager")
        original(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EagerDecoder, "_forward", stock_instead)
        assert start("dispatch_bf16").run() == ["dispatch_bf16"]
    (row,) = [row for row in rows(lake, "decode_configs") if row["config"] == "dispatch_bf16"]
    assert (row["reason_code"], row["detail"]) == (
        "kernel-not-called",
        "dispatch ran 0 times in some layer, for 4 forwards",
    )


def test_what_fails_while_it_is_timed_loses_only_itself(start: Start, lake: Path) -> None:
    original = sessions.clock.decode
    calls: list[str] = []

    def failing(decoder: Any, prompt: torch.Tensor, **options: int) -> Any:
        times, tokens = original(decoder, prompt, **options)
        name = decoder._model.config._experts_implementation
        calls.append(name)
        if name == "batched_mm":
            raise RuntimeError("CUDA error: out of memory")
        return times, tokens + (name == "grouped_mm") * (calls.count(name) == REPEATS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions.clock, "decode", failing)
        assert start("grouped_mm_bf16").run() == ["grouped_mm_bf16"]
    refused = [row for row in rows(lake, "decode_configs") if row["status"] == "refused"]
    assert [(r["config"], r["stage"], r["reason_code"]) for r in refused] == [
        ("grouped_mm_bf16", "timing", "not-repeatable")
    ]
    repeats = {(r["config"], r["repeat"]) for r in rows(lake, "decode_steps")}
    assert repeats == {("stock_eager_bf16", 0), ("stock_eager_bf16", 1), ("grouped_mm_bf16", 0)}


def test_a_stock_model_that_gives_nan_stops_everything(start: Start, lake: Path, tiny: Any) -> None:
    experts(tiny).down_proj.fill_(float("nan"))
    with pytest.raises(Failure) as caught:
        start("dispatch_bf16").run()
    assert caught.value.reason_code == "reference-not-finite"
    (row,) = rows(lake, "decode_configs")
    assert (row["config"], row["status"], row["fault"]) == ("stock_eager_bf16", "refused", "environment")
    assert not (lake / "decode_steps").exists()


def test_a_signal_stops_between_repeats_and_keeps_what_there_is(start: Start, lake: Path) -> None:
    asked = iter(range(100))

    def poll() -> None:
        if next(asked) == 2:  # one check, one repeat
            raise StoppedError("SIGTERM came.")

    with pytest.raises(StoppedError):
        start("stock_eager_bf16", poll=poll).run()
    assert {row["repeat"] for row in rows(lake, "decode_steps")} == {0}


def test_no_repeat_is_begun_that_may_not_fit_once_there_are_enough(start: Start, lake: Path) -> None:
    assert start("stock_eager_bf16", least_repeats=1, left_s=lambda: 0.0).run() == []
    assert {row["repeat"] for row in rows(lake, "decode_steps")} == {0}
