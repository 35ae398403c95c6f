"""Clients that report sums alone: AIPerf and genai-perf, inference-perf, llmperf, InferenceMAX."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.warehouse.importers.files import Warehouse, brought_in, parsed, refusals, run_of, written
from tests.warehouse.importers.other_samples import (
    SUMMARY,
    Document,
    aggregate,
    aiperf,
    llmperf_response,
    metric,
    stage,
)


def test_an_aggregate_of_aiperf(tmp_path: Path) -> None:
    result = parsed(written(tmp_path, "profile_export_aiperf.json", aiperf()), "aiperf", engine="vllm")
    run = run_of(result)
    assert [run[n] for n in ("client", "client_version", "engine", "model", "seed")] == [
        "aiperf", "0.3.0", "vllm", "openai/gpt-oss-20b", 7,
    ]  # fmt: skip
    counts = ("max_concurrency", "requests_asked", "requests_completed", "requests_failed")
    assert [run[name] for name in counts] == [100, 284, 200, 84]
    assert (run["input_tokens"], run["output_tokens"], run["duration_s"]) == (110000, 19370, 15.0)
    assert (run["ttft_p50_ms"], run["e2e_p99_ms"]) == (787.0, 9381.0)
    assert (run["tpot_mean_ms"], run["tpot_p50_ms"]) == (51.0, 50.0)
    assert (run["itl_mean_ms"], run["itl_unit"]) == (102.0, "chunk")
    assert (run["requests_per_s"], run["output_tokens_per_s"]) == (13.0, 1274.0)
    assert (run["status"], run.get("recorded_at")) == ("passed", None)
    assert result.versions == {"aiperf": "0.3.0"}


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({"error_request_count": metric("requests", 5.0)}, 5),
        ({"error_summary": []}, 0),
        ({"error_summary": None}, None),
        ({"error_summary": [{"count": "many"}]}, None),
    ],
)
def test_failures_are_counted_or_unknown_and_never_zero_for_unknown(
    tmp_path: Path, changed: Document, failed: int | None
) -> None:
    run = run_of(parsed(written(tmp_path, "a.json", aiperf(**changed)), "aiperf"))
    assert run["requests_failed"] == failed


def test_units_of_a_metric_are_read_and_not_assumed(tmp_path: Path) -> None:
    changed = {
        "request_latency": metric("s", 6.55),
        "time_to_first_token": metric("ns", 2e6),
        "inter_token_latency": metric("furlongs", 51.0),
    }
    run = run_of(parsed(written(tmp_path, "a.json", aiperf(**changed)), "aiperf"))
    assert run["e2e_mean_ms"] == pytest.approx(6550.0)
    assert run["ttft_mean_ms"] == pytest.approx(2.0)
    assert run["tpot_mean_ms"] is None
    assert "inter_token_latency is in 'furlongs'" in run["reason"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"request_count": metric("requests", 0.0)}, "no usable success"),
        ({"total_osl": metric("tokens", 0.0)}, "gave no token"),
    ],
)
def test_a_run_without_a_success_has_no_figures(tmp_path: Path, changed: Document, reason: str) -> None:
    run = run_of(parsed(written(tmp_path, "a.json", aiperf(**changed)), "aiperf"))
    assert run["status"] == "unusable"
    assert reason in run["reason"]
    assert {run[name] for name in ("ttft_p50_ms", "output_tokens_per_s", "e2e_mean_ms")} == {None}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"was_cancelled": True}, "cancelled before its end"),
        ({"is_complete": False, "incomplete_reason": "stalled"}, "did not finish: stalled"),
    ],
)
def test_a_run_that_did_not_end_is_unusable_and_can_be_read(
    tmp_path: Path, changed: Document, reason: str
) -> None:
    run = run_of(parsed(written(tmp_path, "a.json", aiperf(**changed)), "aiperf"))
    assert (run["status"], run["ttft_p50_ms"]) == ("unusable", 787.0)
    assert reason in run["reason"]


def test_answers_that_came_whole_have_no_times_of_tokens(tmp_path: Path) -> None:
    whole = aiperf(time_to_first_token=metric("ms", 6550.0, p50=5800.0))
    run = run_of(parsed(written(tmp_path, "a.json", whole), "aiperf"))
    assert {run[name] for name in ("ttft_mean_ms", "ttft_p50_ms", "tpot_mean_ms", "itl_mean_ms")} == {None}
    assert (run["e2e_mean_ms"], "came whole" in run["reason"]) == (6550.0, True)


def test_a_fact_that_changes_nothing_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", aiperf())
    assert parsed(path, "aiperf", engine="vllm").notes == []
    (note,) = parsed(path, "aiperf", unit="ms").notes
    assert note.startswith("--unit changes nothing here")


def test_genai_perf_is_a_client_of_its_own(tmp_path: Path) -> None:
    config = {"model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 8}}}
    document = {
        "request_throughput": metric("requests/sec", 2.0),
        "request_latency": metric("ms", 500.0, p50=490.0),
        "output_token_throughput": metric("tokens/sec", 300.0),
        "request_count": metric("count", 10.0),
        "input_sequence_length": metric("tokens", 128.0),
        "output_sequence_length": metric("tokens", 120.33),
        "input_config": config,
    }
    run = run_of(parsed(written(tmp_path, "profile_export_genai_perf.json", document), "aiperf"))
    assert (run["client"], run["model"], run["max_concurrency"]) == ("genai-perf", "m", 8)
    assert (run["input_tokens"], run["output_tokens"]) == (1280, None)  # 1203.3 tokens are nobody's count
    assert run["requests_failed"] is None
    old = {**document, "input_config": {"model": ["m"], "concurrency": 4, "service_kind": "openai"}}
    run = run_of(parsed(written(tmp_path, "old.json", old), "aiperf"))
    assert (run["client"], run["model"], run["max_concurrency"]) == ("genai-perf", "m", 4)


def test_a_stage_of_inference_perf_is_in_seconds(tmp_path: Path) -> None:
    run = run_of(parsed(written(tmp_path, "stage_0_lifecycle_metrics.json", stage()), "inference-perf"))
    counts = ("requests_asked", "requests_completed", "requests_failed", "input_tokens", "output_tokens")
    assert [run[name] for name in counts] == [100, 90, 10, 92709, 9000]
    assert (run["request_rate_per_s"], run["request_rate_mode"]) == (5.0, "fixed")
    assert (run["ttft_mean_ms"], run["ttft_p50_ms"], run["ttft_p99_ms"]) == (500.0, 450.0, 1000.0)
    assert (run["e2e_p99_ms"], run["itl_mean_ms"], run["itl_unit"]) == (4000.0, 20.0, "chunk")
    assert run.get("tpot_mean_ms") is None
    assert json.loads(run["extra_json"])["achieved_rate"] == 4.9


def test_the_server_s_counters_are_not_the_client_s(tmp_path: Path) -> None:
    server = {"load_summary": {}, "failures": {}, "successes": {"count": 7458, "rate": 3.0}}
    result = parsed(written(tmp_path, "stage_0_prometheus_metrics.json", server), "inference-perf")
    (reason,) = refusals(result).values()
    assert (result.runs, "Prometheus" in reason) == ([], True)


def test_the_summary_of_all_stages_says_so(tmp_path: Path) -> None:
    report = stage()
    del report["load_summary"]["requested_rate"]
    run = run_of(parsed(written(tmp_path, "summary_lifecycle_metrics.json", report), "inference-perf"))
    assert run["request_rate_per_s"] is None
    assert "summary of all stages" in run["reason"]


def test_a_summary_of_llmperf(tmp_path: Path) -> None:
    run = run_of(parsed(written(tmp_path, "m_550_150_summary.json", SUMMARY), "llmperf"))
    counts = ("max_concurrency", "requests_asked", "requests_completed", "requests_failed")
    assert [run[name] for name in counts] == [4, 105, 100, 5]
    assert (run["input_tokens"], run["output_tokens"]) == (55000, 15918)
    assert (run["ttft_p50_ms"], run["e2e_mean_ms"], run["e2e_p99_ms"]) == (2000.0, 9500.0, 9700.0)
    assert (run["output_tokens_per_s"], run["requests_per_s"]) == (64.5, 0.4)
    assert {run.get(name) for name in ("tpot_mean_ms", "itl_mean_ms", "itl_unit")} == {None}
    assert run["recorded_at"] == datetime(2024, 6, 12, 16, 15, 21, tzinfo=UTC)


def test_individual_responses_of_llmperf_keep_failures_out_of_the_times(tmp_path: Path) -> None:
    failed = llmperf_response(error_code=-100, error_msg="Output too few tokens", end_to_end_latency_s=90.0)
    responses = [
        llmperf_response(),
        failed,
        llmperf_response(number_output_tokens=0),
        llmperf_response(number_output_tokens="x"),
    ]
    result = parsed(written(tmp_path, "m_individual_responses.json", responses), "llmperf")
    run = run_of(result)
    assert (run["requests_completed"], run["requests_failed"], run["output_tokens"]) == (1, 3, 11)
    assert (run["e2e_mean_ms"], run["tpot_mean_ms"]) == (1500.0, pytest.approx(100.0))
    assert {run.get(name) for name in ("duration_s", "output_tokens_per_s", "model")} == {None}
    assert "without the duration and the load" in run["reason"]
    errors = [row["error"] for row in result.runs[0].requests[0].to_pylist()]
    assert errors == [None, "Output too few tokens", "completed without output tokens"]
    assert list(refusals(result).values()) == ["number_output_tokens is 'x'"]


def test_an_aggregate_of_inferencemax_is_in_seconds_and_per_gpu(tmp_path: Path) -> None:
    run = run_of(parsed(written(tmp_path, "agg_x.json", aggregate()), "inferencemax"))
    setup = ("engine", "model", "device", "max_concurrency", "input_tokens_asked", "output_tokens_asked")
    assert [run[name] for name in setup] == ["vllm", "openai/gpt-oss-120b", "h200", 16, 1024, 1024]
    assert (run["ttft_p50_ms"], run["ttft_p99_ms"], run["tpot_mean_ms"]) == (1760.0, 10000.0, 120.0)
    assert (run["e2e_p50_ms"], run["itl_unit"]) == (21000.0, "chunk")
    assert (run["output_tokens_per_s"], run["total_tokens_per_s"]) == (1040.0, 2080.0)
    assert json.loads(run["server_args_json"])["precision"] == "fp4"
    assert json.loads(run["extra_json"])["std_intvty"] == 295.9


def test_without_a_count_of_successes_no_run_of_inferencemax_can_lead(tmp_path: Path) -> None:
    run = run_of(parsed(written(tmp_path, "agg_x.json", aggregate()), "inferencemax"))
    assert (run["status"], run["requests_completed"], run["requests_failed"]) == ("unusable", None, None)
    assert "how many requests succeeded is unknown" in run["reason"]


@pytest.mark.parametrize(
    "changed", [{"is_multinode": "true"}, {"is_multinode": True}, {"disagg": "true"}, {"pp": 2}, {"tp": None}]
)
def test_rates_per_gpu_are_not_multiplied_by_a_guess(tmp_path: Path, changed: Document) -> None:
    run = run_of(parsed(written(tmp_path, "agg_x.json", aggregate(**changed)), "inferencemax"))
    assert (run["output_tokens_per_s"], run["total_tokens_per_s"]) == (None, None)
    assert "rates are per GPU" in run["reason"]
    assert json.loads(run["extra_json"])["tput_per_gpu"] == 260.0


def test_a_flag_that_is_none_refuses_the_aggregate(tmp_path: Path) -> None:
    result = parsed(written(tmp_path, "agg_x.json", aggregate(is_multinode="perhaps")), "inferencemax")
    assert refusals(result) == {"line 1 (byte 0)": "is_multinode is 'perhaps', neither true nor false"}


def test_runs_of_every_client_are_in_the_lake_with_their_reasons(tmp_path: Path) -> None:
    documents = {"a.json": aiperf(), "i.json": stage(), "l.json": SUMMARY, "m.json": aggregate()}
    paths = [written(tmp_path, name, document) for name, document in documents.items()]
    lake = tmp_path / "lake"
    assert brought_in(lake, *paths).exit_code(allow_partial=False) == 0
    rows = Warehouse(lake).rows("SELECT client, engine, evidence FROM serving_runs ORDER BY client")
    assert [(row["client"], row["engine"]) for row in rows] == [
        ("aiperf", "unknown"),
        ("inference-perf", "unknown"),
        ("inferencemax", "vllm"),
        ("llmperf", "unknown"),
    ]
    assert {row["evidence"] for row in rows} == {"imported"}
