"""The gate end to end over a tiny model: what an honest run finds, and what stops one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from producers.errors import PeerError, RefusedError, StoppedError
from producers.gate import candidates, worker
from producers.gate import state as states
from producers.gate.plan import CONFIGS
from producers.gate.worker import GateWorker
from tests.producers.gate.conftest import REQUIRED, LocalGate, LocalPeer


def test_an_honest_run_passes_in_every_configuration(local_gate: LocalGate) -> None:
    run = local_gate.run()
    found = local_gate.results()
    assert {name: row["verdict"] for name, row in found.items()} == {
        name: "yardstick" if name == "stock_bf16_vs_float32" else "passed" for name in REQUIRED
    }, [row["reason"] for row in found.values()]
    assert {row["positions"] for row in found.values()} == {1036}
    assert found["stock_vs_stock"]["disagreements"] == 0
    # Rounding shows: a gate in which nothing ever differs has no teeth.
    assert all(found[name]["disagreements"] > 0 for name in REQUIRED if name != "stock_vs_stock")
    assert [found[name]["kernel_calls"] for name in REQUIRED] == [None, None, 1, 1, 1, 1, 1]
    # int8 is half of bf16, and a float32 scale for each of 2 x 32 + 64 rows of four experts in two layers.
    for name in ("auto_int8_w8a16", "auto_int8_w8a8"):
        before, after = found[name]["expert_bytes_before"], found[name]["expert_bytes_after"]
        assert after == before // 2 + 2 * 4 * (64 + 64) * 4
    assert found["auto_bf16"]["expert_error"] < found["auto_int8_w8a16"]["expert_error"]
    assert found["auto_int8_w8a16"]["expert_error"] < found["auto_int8_w8a8"]["expert_error"]
    assert states.shortcomings(local_gate.lake, local_gate.plan(), run, 0) == []
    (speaks,) = local_gate.query("SELECT complete, speaks, last_event FROM gate_runs")
    assert speaks == {"complete": True, "speaks": True, "last_event": "finished"}
    (row,) = local_gate.query(
        "SELECT count(DISTINCT tokens_sha256) AS texts, max(context) AS w, max(place) AS p, "
        "min(len(layer_drift)) AS layers FROM gate_positions"
    )
    assert row == {"texts": 1, "w": 3, "p": 258, "layers": 2}


def test_a_worker_that_dies_leaves_a_refusal_and_the_others_go_on(local_gate: LocalGate) -> None:
    deaths = []

    class Dying(LocalPeer):
        def request(self, op, timeout_s, **fields):
            if fields.get("config") == "naive_bf16" and not deaths:
                deaths.append(op)
                raise PeerError("worker-died", "ended with signal SIGKILL", fatal=True)
            return super().request(op, timeout_s, **fields)

    run = local_gate.run(("naive_bf16", "persistent_bf16"), start=lambda: Dying(GateWorker()))
    found = local_gate.results()
    assert [found["naive_bf16"][c] for c in ("status", "reason_code", "fault")] == [
        "refused",
        "worker-died",
        "environment",
    ]
    assert found["persistent_bf16"]["status"] == "measured"
    plan = local_gate.plan(("naive_bf16", "persistent_bf16"))
    assert states.shortcomings(local_gate.lake, plan, run, 0) == ["naive_bf16 is refused (worker-died)"]


def test_a_stopped_run_goes_on_where_it_stopped(local_gate: LocalGate) -> None:
    class Stopping(LocalPeer):
        def request(self, op, timeout_s, **fields):
            if fields.get("config") == "naive_bf16":
                raise StoppedError("SIGTERM came.")
            return super().request(op, timeout_s, **fields)

    with pytest.raises(StoppedError):
        local_gate.run(("naive_bf16",), start=lambda: Stopping(GateWorker()))
    assert local_gate.query("SELECT DISTINCT config FROM gate_positions") == [{"config": "stock_vs_stock"}]
    assert local_gate.query("SELECT last_event FROM run_status") == [{"last_event": "stopped"}]
    local_gate.run(("naive_bf16",), resume="newest")
    rows = local_gate.query(
        "SELECT config, count(*) AS n FROM gate_positions GROUP BY config ORDER BY config"
    )
    assert rows == [{"config": "naive_bf16", "n": 1036}, {"config": "stock_vs_stock", "n": 1036}]
    attempts = local_gate.query("SELECT config, attempt FROM gate_configs ORDER BY config")
    assert attempts == [{"config": "naive_bf16", "attempt": 0}, {"config": "stock_vs_stock", "attempt": 0}]
    events = local_gate.query("SELECT event FROM runs ORDER BY event_seq")
    assert [row["event"] for row in events] == ["started", "stopped", "resumed", "finished"]


def test_a_resumed_run_reads_the_same_text_with_the_same_model(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping(LocalPeer):
        def request(self, op, timeout_s, **fields):
            if fields.get("config") == "naive_bf16":
                raise StoppedError("SIGTERM came.")
            return super().request(op, timeout_s, **fields)

    with pytest.raises(StoppedError):
        local_gate.run(("naive_bf16",), start=lambda: Stopping(GateWorker()))
    monkeypatch.setattr(worker, "python_documentation", lambda: "other words " * 1000)
    with pytest.raises(RefusedError, match="cannot go on: not as before are the token ids"):
        local_gate.run(("naive_bf16",), resume="newest")


def test_nan_logits_of_a_candidate_are_its_refusal(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dispatch.integration import experts

    original = experts.fused_moe

    def spoilt(*arguments, **named):
        out = original(*arguments, **named)
        out[7] = float("nan")
        return out

    monkeypatch.setattr(experts, "fused_moe", spoilt)
    local_gate.run(("naive_bf16",))
    found = local_gate.results()["naive_bf16"]
    assert (found["status"], found["reason_code"], found["fault"]) == ("refused", "nan-output", "contestant")
    assert found["verdict"] == "refused"
    assert "the candidate gave logits or hidden states with NaN" in found["reason"]


def test_without_a_stock_model_every_configuration_is_refused(local_gate: LocalGate, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    plan = local_gate.plan(("naive_bf16",), text=str(empty))
    with pytest.raises(RefusedError, match="The text is empty"):
        local_gate.run(plan=plan)
    short = tmp_path / "short.txt"
    short.write_text("too few words")
    with pytest.raises(RefusedError, match="the text has 3 tokens, and 4 windows of 259 tokens need 1037"):
        local_gate.run(plan=local_gate.plan(("naive_bf16",), text=str(short)))
    rows = local_gate.query(
        "SELECT status, reason_code, count(*) AS n FROM gate_configs GROUP BY ALL ORDER BY ALL"
    )
    assert rows == [
        {"status": "refused", "reason_code": "model-unavailable", "n": 2},
        {"status": "refused", "reason_code": "text-too-short", "n": 2},
    ]
    assert local_gate.query("SELECT DISTINCT last_event FROM run_status") == [{"last_event": "interrupted"}]


def test_a_control_that_is_not_clean_voids_the_run(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = GateWorker._compared

    def noisy(self, model, windows, reference, config):
        for columns in original(self, model, windows, reference, config):
            if config.name == "stock_vs_stock":
                columns["candidate_top1"][:2] += 1
                columns["agree"] = columns["candidate_top1"] == columns["reference_top1"]
            yield columns

    monkeypatch.setattr(GateWorker, "_compared", noisy)
    run = local_gate.run(("naive_bf16", "stock_bf16_vs_float32"))
    found = local_gate.results()
    assert (found["stock_vs_stock"]["verdict"], found["naive_bf16"]["verdict"]) == ("failed", "void")
    assert found["naive_bf16"]["reason"] == "the control is not clean"
    plan = local_gate.plan(("naive_bf16", "stock_bf16_vs_float32"))
    assert states.shortcomings(local_gate.lake, plan, run, 0) == [
        "the run is void, because the stock model disagrees with itself at 2 positions"
    ]
    assert states.shortcomings(local_gate.lake, plan, run, 2) == []


def test_the_stock_model_is_as_it_was_after_every_variant(calm: None) -> None:
    from producers.models import load_model

    stock = load_model("tiny-mixtral").model
    ids = torch.arange(20)[None]
    before = stock(input_ids=ids).logits
    made = candidates.Candidates(stock)
    dtypes = []
    for name in ("naive_bf16", "auto_int8_w8a16", "auto_int8_w8a8", "stock_bf16_vs_float32"):
        with made.of(CONFIGS[name]) as candidate:
            down = candidate.model.model.layers[0].mlp.experts.down_proj
            dtypes.append((down.dtype, candidate.model is stock))
    assert dtypes == [
        (torch.bfloat16, True),
        (torch.int8, False),
        (torch.int8, False),
        (torch.float32, False),
    ]
    assert stock.config._experts_implementation == "eager"
    assert torch.equal(stock(input_ids=ids).logits, before)


def test_the_reference_passes_through_its_file_unchanged(tmp_path: Path) -> None:
    from producers.gate.experts import Probe
    from producers.gate.worker import Reference

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 5, generator=generator).bfloat16()
    hidden = torch.randn(2, 6, 3, generator=generator).bfloat16()
    probe = Probe(hidden[0], torch.float32, torch.randn(4, 6, 3, generator=generator))
    Reference(logits, hidden, {"layer": probe}).save(tmp_path / "r.pt")
    found = Reference.load(tmp_path / "r.pt")
    part = found.at(slice(2, 4), torch.device("cpu"))
    assert torch.equal(part.logits, logits[2:4])
    assert torch.equal(part.hidden, hidden[:, 2:4])
    assert torch.equal(found.probes["layer"].outputs, probe.outputs)
    assert found.probes["layer"].weights_dtype is torch.float32
    assert np.array_equal(found.probes["layer"].states.float(), hidden[0].float())
