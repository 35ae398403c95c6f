"""Wrong kernels, each wrong in one way, through the real path: the gate says so."""

from collections.abc import Iterator

import pytest
import torch

from dispatch.integration import experts as integration
from dispatch.integration import layers
from producers.gate import candidates
from tests.producers.gate.conftest import LocalGate, Row

JUDGED = ("stock_bf16_vs_float32",)


@pytest.fixture(autouse=True)
def honest_again() -> Iterator[None]:
    """What a gate registers with transformers stays for the process; the tests after these get the real ones.

    It asks for no ``monkeypatch`` and is made first, so it ends when what was patched is back in place.
    """
    yield
    integration.register()


def judged(local_gate: LocalGate, config: str) -> Row:
    """The result of ``config``, beside a clean control and the yardstick."""
    local_gate.run((*JUDGED, config))
    found = local_gate.results()
    assert found["stock_vs_stock"]["verdict"] == "passed"
    return found[config]


def test_swapped_gate_and_up_rows(local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(layer):
        w13, w2 = layers.dense_weights(layer)
        gate, up = w13.chunk(2, dim=1)
        return torch.cat([up, gate], dim=1), w2

    monkeypatch.setattr(integration, "dense_weights", swapped)
    row = judged(local_gate, "naive_bf16")
    assert row["verdict"] == "failed"
    assert "an expert alone is off by" in row["reason"]
    assert row["expert_error"] > 0.5


@pytest.mark.parametrize("scale", ["gate_up_proj_scale", "down_proj_scale"])
def test_the_scale_of_one_expert_off_by_two_per_cent(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch, scale: str
) -> None:
    original = candidates.quantize_experts

    def off(model, precision):
        report = original(model, precision)
        getattr(model.model.layers[1].mlp.experts, scale)[2] *= 1.02
        return report

    monkeypatch.setattr(candidates, "quantize_experts", off)
    row = judged(local_gate, "auto_int8_w8a16")
    assert row["verdict"] == "failed"
    # Decisions, gaps, perplexity and drift all stay within the policy: one expert alone shows it.
    assert all(reason.startswith("an expert alone") for reason in row["reason"].split("; "))
    assert "an expert alone has a gain off by 0.0" in row["reason"]
    worst = local_gate.query(
        "SELECT layer, expert FROM gate_experts WHERE config = 'auto_int8_w8a16' AND abs(gain - 1) > 0.01"
    )
    assert worst == [{"layer": "model.layers.1.mlp.experts", "expert": 2}]


def test_router_weights_not_applied(local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    original = integration.fused_moe

    def unweighted(x, w13, w2, topk_weights, topk_ids, **named):
        return original(x, w13, w2, torch.ones_like(topk_weights), topk_ids, **named)

    monkeypatch.setattr(integration, "fused_moe", unweighted)
    row = judged(local_gate, "persistent_bf16")
    assert row["verdict"] == "failed"
    for criterion in ("agreement", "drift", "an expert alone has a gain off by 0.33"):
        assert criterion in row["reason"]


def test_the_last_choice_of_every_token_dropped(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = integration.fused_moe

    def fewer(x, w13, w2, topk_weights, topk_ids, **named):
        k = max(1, topk_ids.shape[1] - 1)
        return original(x, w13, w2, topk_weights[:, :k], topk_ids[:, :k], **named)

    monkeypatch.setattr(integration, "fused_moe", fewer)
    row = judged(local_gate, "auto_bf16")
    assert row["verdict"] == "failed"
    for criterion in ("agreement", "drift"):
        assert criterion in row["reason"]
    # Each expert alone is as it should be.
    assert "an expert alone" not in row["reason"]


def test_a_kernel_that_gives_stocks_output_without_running(
    local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lazy(layer, hidden_states, top_k_index, top_k_weights):
        return type(layer).forward.__wrapped__(layer, hidden_states, top_k_index, top_k_weights)

    monkeypatch.setitem(integration._FORWARDS, "dispatch_naive", lazy)
    row = judged(local_gate, "naive_bf16")
    assert (row["disagreements"], row["kernel_calls"]) == (0, 0)
    assert (row["verdict"], row["reason_code"]) == ("void", "kernel-not-called")
    assert (
        "naive in bf16 was called in no layer or not in all: model.layers.0.mlp.experts ran nothing"
        in row["reason"]
    )


def test_another_kernel_than_the_named_one(local_gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(integration._FORWARDS, "dispatch_naive", integration._FORWARDS["dispatch_persistent"])
    row = judged(local_gate, "naive_bf16")
    assert (row["verdict"], row["kernel_calls"]) == ("void", 0)
    assert "model.layers.0.mlp.experts ran persistent" in row["reason"]
    (calls,) = local_gate.query("SELECT calls_json FROM gate_configs WHERE config = 'naive_bf16'")
    assert "persistent" in calls["calls_json"]
