"""The real worker over its pipes: the whole protocol, and what it says of contestants that misbehave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from producers import environment
from producers.environment import CPU_DEVICE
from producers.errors import PeerError
from producers.outcomes import fault_of
from producers.process import Peer
from tests.producers.peers import TIMEOUT_S, Drawn, draw, ready_worker, small_cell, start


@pytest.fixture(scope="module")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = start("producers.referee", tmp_path_factory.mktemp("referee"))
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def drawn(referee: Peer, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return draw(referee, tmp_path_factory.mktemp("scratch"), small_cell(tokens=4))


@pytest.fixture(scope="module")
def worker(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One process for many contestants: each says hello again."""
    peer = ready_worker(tmp_path_factory.mktemp("worker"), "sabotage:Right", drawn)
    yield peer
    peer.close()


def prepare(worker: Peer, contestant: str, drawn: Drawn) -> dict[str, dict[str, Any]]:
    worker.request("hello", TIMEOUT_S, contestant=f"sabotage:{contestant}")
    worker.request("load", TIMEOUT_S, folder=drawn.weights["folder"], precision=drawn.cell.precision)
    verdicts: dict[str, dict[str, Any]] = worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())[
        "verdicts"
    ]
    return verdicts


def cpu_uuid(monkeypatch: pytest.MonkeyPatch) -> str:
    """What the coordinator calls this machine without a card."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(environment, "read_sources", lambda _: None)  # slow, and not what is asked
    return environment.detect().device.device_uuid


def test_whole_protocol(referee: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw(referee, tmp_path, small_cell("int8_w8a16", tokens=3, routing="zipf"))
    worker = start("producers.worker", tmp_path)
    hello = worker.request("hello", TIMEOUT_S, contestant="producers.contestants.example:Example", options={})
    assert (hello["device"], hello["device_uuid"]) == (CPU_DEVICE, cpu_uuid(monkeypatch))
    assert hello["pid"] == worker.pid
    assert len(hello["source_sha256"]) == 64
    folder = drawn.weights["folder"]
    loaded = worker.request("load", TIMEOUT_S, folder=folder, precision="int8_w8a16")
    assert loaded["sha256"] == drawn.weights["sha256"]
    assert set(loaded["sha256"]) == {"w13", "w2", "w13_scale", "w2_scale"}

    answer = worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields("graph", "eager"))
    assert answer["inputs_sha256"] == drawn.answer["inputs_sha256"]
    assert answer["verdicts"]["graph"]["reason_code"] == "unsupported"
    verdict = answer["verdicts"]["eager"]
    assert verdict["status"] == "passed"
    assert verdict["repeatability"] == "bitwise"
    assert 0 < verdict["relative_error"] < verdict["tolerance"] == 0.01
    assert verdict["config_source"] == "default"

    sampled = worker.request("sample", TIMEOUT_S, mode="eager", samples=3)
    assert len(sampled["times_us"]) == 3
    assert all(math.isfinite(t) and t > 0 for t in sampled["times_us"])
    assert sampled["l2_state"] == "none"
    finished = worker.request("finish", TIMEOUT_S)["verdicts"]
    assert set(finished) == {"eager"}
    assert finished["eager"]["status"] == "passed"
    assert finished["eager"]["output_sha256"] == verdict["output_sha256"]
    worker.request("release", TIMEOUT_S)
    with pytest.raises(PeerError, match="not prepared"):
        worker.request("sample", TIMEOUT_S, mode="eager", samples=1)
    worker.close()
    assert not worker.alive


@pytest.mark.parametrize(
    ("contestant", "code", "said"),
    [
        ("Wrong", "wrong-output", "over the tolerance 0.01"),
        ("OneWrongToken", "wrong-output", "over the tolerance"),
        ("Nan", "nan-output", "NaN"),
        ("Drifting", "not-repeatable", "too far apart"),
        ("Overwrites", "input-modified", "wrote into x"),
        ("Repacks", "input-modified", "wrote into w2"),
        ("Stale", "nan-output", "NaN"),
        ("Raises", "crashed", "ValueError: block size 48"),
        ("Exits", "crashed", "usage: no"),
        ("OutOfMemory", "out-of-memory", "9 TiB"),
        ("Faults", "illegal-memory", "illegal memory access"),
        ("Unable", "unsupported", "power of three"),
        ("WrongShape", "wrong-output", "[64, 4]"),
    ],
)
def test_misbehaviour_is_refused(worker: Peer, drawn: Drawn, contestant: str, code: str, said: str) -> None:
    verdicts = prepare(worker, contestant, drawn)
    assert set(verdicts) == {"all"}
    verdict = verdicts["all"]
    assert (verdict["status"], verdict["reason_code"], verdict["fault"]) == ("refused", code, fault_of(code))
    assert said in str(verdict["detail"])
    assert verdict["inputs_sha256"] == drawn.answer["inputs_sha256"]
    with pytest.raises(PeerError, match="not prepared"):
        worker.request("sample", TIMEOUT_S, mode="eager", samples=1)


def test_right_output_passes_bitwise(worker: Peer, drawn: Drawn) -> None:
    verdicts = prepare(worker, "Right", drawn)
    assert (verdicts["eager"]["status"], verdicts["eager"]["repeatability"]) == ("passed", "bitwise")


def test_last_bits_may_vary_and_are_recorded_so(worker: Peer, drawn: Drawn) -> None:
    verdicts = prepare(worker, "Jitter", drawn)
    assert (verdicts["eager"]["status"], verdicts["eager"]["repeatability"]) == ("passed", "tolerance")


def test_output_of_the_timed_executions_is_judged(worker: Peer, drawn: Drawn) -> None:
    verdicts = prepare(worker, "LateWrong", drawn)
    assert verdicts["eager"]["status"] == "passed"
    worker.request("sample", TIMEOUT_S, mode="eager", samples=2)
    late = worker.request("finish", TIMEOUT_S)["verdicts"]["eager"]
    assert (late["status"], late["reason_code"]) == ("refused", "wrong-output")
    assert late["relative_error"] == pytest.approx(1.0, rel=0.02)


def test_prints_do_not_garble_the_protocol(worker: Peer, drawn: Drawn) -> None:
    assert prepare(worker, "Prints", drawn)["eager"]["status"] == "passed"
    log = worker._log.read_text()
    assert "garbage from C" in log
    assert '{"id": 1, "ok": true}' in log


def test_hanging_is_a_timeout_and_dying_a_death(tmp_path: Path, drawn: Drawn) -> None:
    sleeper = ready_worker(tmp_path, "sabotage:Sleeps", drawn)
    with pytest.raises(PeerError) as hung:
        sleeper.request("prepare", 1.0, **drawn.prepare_fields())
    sleeper.close(gently=False)
    assert (hung.value.reason_code, sleeper.alive) == ("worker-timeout", False)
    dying = ready_worker(tmp_path, "sabotage:Dies", drawn)
    with pytest.raises(PeerError) as died:
        dying.request("prepare", TIMEOUT_S, **drawn.prepare_fields())
    dying.close()
    assert died.value.reason_code == "worker-died"
    assert "SIGSEGV" in died.value.detail


def test_requests_that_cannot_be_served_and_the_end(tmp_path: Path, drawn: Drawn) -> None:
    worker = start("producers.worker", tmp_path, Path(__file__).parent)
    for fields, code in (
        ({"contestant": "sabotage:NotInstalled"}, "not-installed"),
        ({"contestant": "no_such_module:Engine"}, "not-installed"),
        ({"contestant": "sabotage:Nobody"}, "crashed"),
    ):
        with pytest.raises(PeerError) as refused:
            worker.request("hello", TIMEOUT_S, **fields)
        assert (refused.value.reason_code, refused.value.fault) == (code, fault_of(code))
    with pytest.raises(PeerError, match="before hello"):
        worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())
    with pytest.raises(PeerError, match="no op 'dance'"):
        worker.request("dance", TIMEOUT_S)
    # A worker whose coordinator is gone ends by itself.
    stdin = worker._process.stdin
    assert stdin is not None
    stdin.close()
    assert worker._process.wait(timeout=30) == 0
    worker.close(gently=False)


def test_changed_and_truncated_inputs_are_noticed(referee: Peer, worker: Peer, tmp_path: Path) -> None:
    drawn = draw(referee, tmp_path, small_cell(tokens=2))
    prepare(worker, "Right", drawn)
    x = Path(drawn.answer["folder"]) / "x.bin"
    held = x.read_bytes()
    x.write_bytes(bytes([held[0] ^ 1]) + held[1:])
    answer = worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())
    assert answer["inputs_sha256"] != drawn.answer["inputs_sha256"]
    x.write_bytes(held[:-2])
    with pytest.raises(PeerError, match="holds 254 bytes instead of 256") as short:
        worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())
    assert short.value.reason_code == "inputs-differ"


def test_zero_tokens_have_nothing_to_time(referee: Peer, worker: Peer, tmp_path: Path) -> None:
    drawn = draw(referee, tmp_path, small_cell(tokens=0))
    assert (drawn.answer["distinct_experts"], drawn.answer["weight_bytes"], drawn.answer["flops"]) == (
        0,
        0,
        0,
    )
    verdicts = prepare(worker, "Right", drawn)
    assert verdicts["all"]["reason_code"] == "unsupported"
