"""Derived figures of served requests: the rules that importers and the producer share."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from warehouse.schema import TABLES
from warehouse.serving import (
    NO_TOKENS,
    failed_requests,
    itl_unit,
    outcome,
    percentile,
    request_rate,
    request_row,
    summarise,
)


def row(**given):
    return request_row(0, **{"error": None, "input_tokens": 8, "output_tokens": 3} | given)


def test_tpot_comes_from_the_latency_and_not_from_the_gaps():
    chunked = row(output_tokens=13, ttft_s=0.2, chunk_gaps_s=[0.1, 0.1, 0.1])

    assert chunked["e2e_ms"] == pytest.approx(500)
    assert chunked["e2e_source"] == "derived"
    assert chunked["tpot_ms"] == pytest.approx(25)
    assert itl_unit([chunked]) == "chunk"
    assert itl_unit([row(ttft_s=0.2, chunk_gaps_s=[0.1, 0.1])]) == "token"


def test_a_measured_latency_is_preferred_to_a_derived_one():
    measured = row(ttft_s=0.2, chunk_gaps_s=[0.1, 0.1], latency_s=0.42)

    assert (measured["e2e_ms"], measured["e2e_source"]) == (420, "measured")
    assert measured["tpot_ms"] == pytest.approx(110)


@pytest.mark.parametrize("failure", [{"error": "503"}, {"output_tokens": 0}])
def test_what_failed_has_no_times(failure):
    failed = row(ttft_s=21.0, chunk_gaps_s=[0.1], latency_s=22.0, **failure)

    assert failed["ok"] is False
    assert failed["error"] == failure.get("error", NO_TOKENS)
    times = ("ttft_ms", "e2e_ms", "e2e_source", "tpot_ms", "chunk_gaps_ms")
    assert [failed[name] for name in times] == [None] * 5


@pytest.mark.parametrize("missing", [0.0, math.nan, math.inf, None])
def test_a_ttft_of_nothing_is_missing_and_nothing_is_derived_from_it(missing):
    lost = row(ttft_s=missing, chunk_gaps_s=[0.1, 0.1])

    assert (lost["ttft_ms"], lost["e2e_ms"], lost["tpot_ms"]) == (None, None, None)
    assert lost["ok"] is True


@pytest.mark.parametrize("gaps", [[], [0.0, 0.0]])
def test_a_buffered_answer_has_a_latency_and_no_token_times(gaps):
    buffered = row(ttft_s=0.4, chunk_gaps_s=gaps)

    assert buffered["e2e_ms"] == pytest.approx(400)
    assert (buffered["ttft_ms"], buffered["tpot_ms"]) == (None, None)


def test_a_gap_that_is_no_number_derives_nothing():
    assert row(ttft_s=0.4, chunk_gaps_s=[0.1, math.nan])["e2e_ms"] is None


def test_one_token_has_a_ttft_and_no_tpot():
    one = row(output_tokens=1, ttft_s=0.3, chunk_gaps_s=[])

    assert (one["ttft_ms"], one["e2e_ms"], one["tpot_ms"]) == (300, 300, None)


def test_the_summary_counts_usable_successes_alone():
    rows = [
        row(ttft_s=0.1, chunk_gaps_s=[0.05, 0.05]),
        row(ttft_s=0.3, chunk_gaps_s=[0.15, 0.05]),
        row(error="refused", output_tokens=3, ttft_s=30.0),
    ]
    summary = summarise(rows, 0.5)

    assert (summary["requests_completed"], summary["requests_failed"]) == (2, 1)
    assert (summary["input_tokens"], summary["output_tokens"]) == (16, 6)
    assert summary["output_tokens_per_s"] == 12
    assert summary["total_tokens_per_s"] == 44
    assert summary["ttft_mean_ms"] == pytest.approx(200)
    assert summary["ttft_p99_ms"] == pytest.approx(298)
    assert summary["e2e_p50_ms"] == pytest.approx(350)
    assert summary["tpot_mean_ms"] == pytest.approx(75)
    assert set(summary) <= set(TABLES["serving_runs"].columns)
    assert set(rows[0]) | {"serving_id"} == set(TABLES["serving_requests"].columns)


def test_a_run_without_a_usable_success_has_no_figures():
    summary = summarise([row(output_tokens=0), row(error="x")], 2.0)

    assert summary["output_tokens_per_s"] is None
    assert summary["ttft_p50_ms"] is None
    assert outcome(summary["requests_completed"], 2) == ("unusable", "no usable success in 2 requests")
    assert outcome(1, 2) == ("passed", None)


def test_an_unknown_count_is_never_0():
    assert failed_requests() is None
    assert failed_requests(errors=["", "x", " "]) == 1
    assert failed_requests(asked=5, completed=2, errors=[]) == 3
    assert failed_requests(failed=4, asked=5, completed=2) == 4
    assert summarise([row(output_tokens=None, ttft_s=0.1)], 1.0)["output_tokens_per_s"] is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("inf", (None, "inf")),
        (math.inf, (None, "inf")),
        ("trace", (None, "trace")),
        (10, (10.0, "fixed")),
        ("2.5", (2.5, "fixed")),
        (None, (None, None)),
    ],
)
def test_request_rates(written, read):
    assert request_rate(written) == read


@pytest.mark.parametrize("wrong", ["fast", 0, -1.0, math.nan, True])
def test_what_is_no_rate_is_refused(wrong):
    with pytest.raises(ValueError, match="no request rate"):
        request_rate(wrong)


def test_percentiles_interpolate_as_the_clients_do():
    assert percentile([4.0, 1.0, 2.0, 3.0], 50) == 2.5
    assert percentile([1.0, 2.0], 99) == pytest.approx(1.99)
    assert percentile([7.0], 99) == 7.0
    assert percentile([], 50) is None


def test_figures_of_a_recorded_file_are_those_that_its_client_wrote(shared_cases: Path):
    folder = shared_cases / "serve"
    for name, e2e, ttft_p99, tpot in (
        ("vllm_c4.json", "mean_e2el_ms", "p99_ttft_ms", "mean_tpot_ms"),
        ("sglang_c1.json", "mean_e2e_latency_ms", "p99_ttft_ms", "mean_tpot_ms"),
    ):
        file = json.loads((folder / name).read_text(encoding="utf-8"))
        parts = zip(file["input_lens"], file["output_lens"], file["ttfts"], file["itls"], strict=True)
        rows = [
            request_row(i, error=None, input_tokens=a, output_tokens=b, ttft_s=t, chunk_gaps_s=gaps)
            for i, (a, b, t, gaps) in enumerate(parts)
        ]
        summary = summarise(rows, file["duration"])
        # SGLang measures it beside the rounded parts that it writes.
        assert summary["e2e_mean_ms"] == pytest.approx(file[e2e], abs=0.1)
        assert summary["ttft_p99_ms"] == pytest.approx(file[ttft_p99], abs=0.01)
        assert summary["tpot_mean_ms"] == pytest.approx(file[tpot], abs=0.01)
        assert summary["output_tokens_per_s"] == pytest.approx(file["output_throughput"])
