"""vLLM bench serve and benchmark_serving.py, from 2024 to now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.importers.conftest import Imports, Rows
from tests.warehouse.importers.samples import lines, vllm_run, vllm_summary

Imported = Callable[..., Rows]


def without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def test_requests_give_the_latencies_that_the_file_does_not_have(
    imports: Imports, imported: Imported
) -> None:
    (run,) = imported("run.json", vllm_run())

    assert run["e2e_mean_ms"] == pytest.approx(575.0)
    assert run["tpot_mean_ms"] == pytest.approx(37.5)
    assert (run["itl_unit"], run["itl_mean_ms"]) == ("chunk", pytest.approx(1000 * 0.85 / 14))
    assert (run["requests_asked"], run["requests_completed"], run["requests_failed"]) == (3, 2, 1)
    first, second, failed = imports.rows("serving_requests")
    assert (first["output_tokens"], len(first["chunk_gaps_ms"])) == (13, 3)
    assert (first["e2e_ms"], first["tpot_ms"]) == (pytest.approx(500), pytest.approx(25))
    assert (second["e2e_ms"], second["tpot_ms"]) == (pytest.approx(650), pytest.approx(50))
    assert first["e2e_source"] == "derived"
    assert (failed["ok"], failed["error"], failed["ttft_ms"], failed["e2e_ms"]) == (
        False,
        "server error",
        None,
        None,
    )
    assert [row["start_s"] for row in (first, second, failed)] == [0.0, 0.0, 0.5]


def test_measured_latencies_are_taken_where_a_version_stores_them(
    imports: Imports, imported: Imported
) -> None:
    imported("run.json", vllm_run(latencies=[0.6, 0.7, 9.0], queue_times=[0.1, 0.1, 0.1]))

    kept = [(row["e2e_ms"], row["e2e_source"]) for row in imports.rows("serving_requests")]
    assert kept == [(600.0, "measured"), (700.0, "measured"), (None, None)]


def test_answers_without_tokens_are_no_successes(imports: Imports, imported: Imported) -> None:
    (run,) = imported(
        "run.json",
        vllm_run(
            num_prompts=5,
            completed=2,
            input_lens=[400] * 5,
            output_lens=[0] * 5,
            ttfts=[21.3, 0.0, 21.2, 0.0, 21.1],
            itls=[[]] * 5,
            start_times=[0.0] * 5,
            generated_texts=[""] * 5,
            errors=["payload error", "", "payload error", "", "payload error"],
            failed=None,
            mean_ttft_ms=12.7,
        ),
    )

    assert (run["requests_completed"], run["requests_failed"], run["status"]) == (0, 3, "unusable")
    assert (run["ttft_mean_ms"], run["ttft_p50_ms"], run["e2e_mean_ms"]) == (None, None, None)
    assert "no usable success in 5 requests" in run["reason"]
    assert {row["ttft_ms"] for row in imports.rows("serving_requests")} == {None}


def test_a_summary_alone_gives_the_clients_figures(imported: Imported) -> None:
    (run,) = imported("run.json", vllm_summary())

    assert (run["ttft_mean_ms"], run["ttft_p50_ms"], run["ttft_p99_ms"]) == (20.0, 19.0, 29.0)
    assert (run["tpot_mean_ms"], run["tpot_p50_ms"], run["itl_mean_ms"], run["itl_unit"]) == (
        5.0,
        4.5,
        5.0,
        None,
    )
    assert (run["e2e_mean_ms"], run["output_tokens_per_s"], run["total_tokens_per_s"]) == (
        None,
        200.0,
        4200.0,
    )
    assert (run["evidence"], run["client"], run["engine"]) == ("imported", "vllm bench serve", "vllm")


def test_a_dotted_percentile_is_one_key(imports: Imports, imported: Imported) -> None:
    imported("run.json", vllm_summary())
    assert imports.extra_of()["p99.9_ttft_ms"] == 30.0


def test_the_median_may_be_called_p50(imported: Imported) -> None:
    (run,) = imported("run.json", {**without(vllm_summary(), "median_ttft_ms"), "p50_ttft_ms": 18.0})
    assert run["ttft_p50_ms"] == 18.0


def test_the_oldest_spelling_of_the_request_rate(imported: Imported) -> None:
    old = without(
        vllm_summary(), "endpoint_type", "label", "failed", "request_throughput", "total_token_throughput"
    )
    (run,) = imported(
        "run.json", {**old, "best_of": 1, "request_inthroughput": 3.9, "input_throughput": 4000.0}
    )
    assert (run["requests_per_s"], run["total_tokens_per_s"]) == (3.9, 4200.0)
    assert (run["client"], run["requests_failed"]) == ("vllm benchmark_serving", 0)


@pytest.mark.parametrize("key", ["request_goodput", "request_goodput:"])
def test_goodput_in_both_spellings(imported: Imported, key: str) -> None:
    (run,) = imported("run.json", vllm_summary(**{key: 3.5}))
    assert run["goodput_per_s"] == 3.5


@pytest.mark.parametrize(
    ("asked", "rate", "mode"),
    [
        ("inf", None, "inf"),
        (float("inf"), None, "inf"),
        (10.0, 10.0, "fixed"),
        ("10", 10.0, "fixed"),
        ("trace", None, "trace"),
    ],
)
def test_request_rates(imported: Imported, asked: Any, rate: float | None, mode: str) -> None:
    (run,) = imported("run.json", vllm_summary(request_rate=asked))
    assert (run["request_rate_per_s"], run["request_rate_mode"]) == (rate, mode)


def test_metadata_stays_text_and_never_becomes_a_measurement(imports: Imports, imported: Imported) -> None:
    (run,) = imported("run.json", vllm_summary(input_len="1000", gpu="4xL40S", completed="8"))

    assert imports.extra_of()["input_len"] == "1000"
    assert imports.extra_of()["gpu"] == "4xL40S"
    assert imports.extra_of()["completed"] == "8"
    assert run["requests_completed"] is None
    assert "completed is '8', not a whole number" in run["reason"]
    assert (run["device"], run["input_tokens_asked"]) == (None, None)


def test_appended_runs_have_no_newline_at_the_end(imports: Imports, imported: Imported) -> None:
    text = json.dumps(vllm_summary()) + "\n" + json.dumps(vllm_summary(request_rate=10.0))
    runs = imported("run.json", text)
    assert [run["request_rate_per_s"] for run in runs] == [None, 10.0]


def test_runs_that_are_written_over_several_lines_may_follow_each_other(imported: Imported) -> None:
    text = json.dumps(vllm_summary(), indent=2) + json.dumps(vllm_summary(duration=3.0), indent=2)
    assert [run["duration_s"] for run in imported("run.json", text)] == [2.0, 3.0]


def test_repeats_of_one_point_are_numbered(imported: Imported) -> None:
    runs = imported(
        "run.json",
        lines(
            vllm_summary(),
            vllm_summary(duration=2.1, date="20260101-000100"),
            vllm_summary(max_concurrency=8),
            vllm_summary(duration=2.2),
        ),
    )
    assert [run["repeat"] for run in runs] == [1, 2, 1, 3]


def test_the_engine_of_a_mere_protocol_is_unknown_unless_it_is_given(
    imports: Imports, imported: Imported
) -> None:
    (run,) = imported("run.json", without(vllm_summary(endpoint_type="openai"), "backend"))
    assert (run["engine"], imports.extra_of()["endpoint_type"]) == ("unknown", "openai")
    assert "not in the file: engine, device" in run["reason"]


def test_given_facts_fill_what_the_file_lacks_and_change_nothing_else(imported: Imported) -> None:
    (run,) = imported(
        "run.json",
        without(vllm_summary(endpoint_type="openai"), "backend"),
        *("--engine", "sglang", "--device", "NVIDIA H200", "--model", "other"),
    )
    assert (run["engine"], run["device"], run["model"]) == ("sglang", "NVIDIA H200", "m")


def test_a_local_date_without_zone_is_no_time(imports: Imports, imported: Imported) -> None:
    (run,) = imported("run.json", vllm_summary())
    assert run["recorded_at"] is None
    assert "the date has no time zone" in run["reason"]
    assert imports.extra_of()["date"] == "20260101-000000"


def test_failures_are_never_nought_for_unknown(imported: Imported) -> None:
    (run,) = imported("run.json", {**without(vllm_summary(), "failed"), "num_prompts": None})
    assert run["requests_failed"] is None
    assert "how many requests failed is not in the file" in run["reason"]


def test_older_files_have_failures_by_difference(imported: Imported) -> None:
    (run,) = imported("run.json", {**without(vllm_summary(), "failed"), "num_prompts": 10})
    assert run["requests_failed"] == 2


def test_everything_failed_has_no_figure(imported: Imported) -> None:
    zeros = {name: 0.0 for name in vllm_summary() if name.endswith("_ms")}
    (run,) = imported("run.json", vllm_summary(completed=0, failed=8, total_output_tokens=0, **zeros))
    assert (run["status"], run["requests_completed"], run["requests_failed"]) == ("unusable", 0, 8)
    assert {value for name, value in run.items() if name.endswith("_ms")} == {None}


def test_a_client_that_did_not_stream_has_no_token_times(imported: Imported) -> None:
    (run,) = imported(
        "run.json", vllm_summary(mean_itl_ms=0.0, mean_tpot_ms=-0.0, mean_ttft_ms=250.0, mean_e2el_ms=250.0)
    )
    assert (run["ttft_mean_ms"], run["tpot_mean_ms"], run["itl_mean_ms"], run["e2e_mean_ms"]) == (
        None,
        None,
        None,
        250,
    )
    assert "did not see tokens one by one" in run["reason"]


def test_requests_of_a_trimmed_file_leave_the_figures_to_the_client(
    imports: Imports, imported: Imported
) -> None:
    (run,) = imported(
        "run.json", vllm_run(num_prompts=100, completed=99, mean_ttft_ms=123.0, total_output_tokens=9999)
    )

    assert (run["ttft_mean_ms"], run["requests_completed"], run["output_tokens"]) == (123.0, 99, 9999)
    assert "of 100 requests 3 are listed" in run["reason"]
    assert len(imports.rows("serving_requests")) == 3


def test_figures_that_the_requests_contradict_are_kept_beside(imports: Imports, imported: Imported) -> None:
    (run,) = imported("run.json", vllm_run(mean_tpot_ms=99.0))
    assert run["tpot_mean_ms"] == pytest.approx(37.5)
    assert imports.extra_of()["client_figures_not_used"]["tpot_mean_ms"] == 99.0


@pytest.mark.parametrize(
    ("array", "value", "reason"),
    [
        ("ttfts", "0.1", "ttfts has '0.1', not a number"),
        ("ttfts", -0.1, "ttfts has -0.1, below 0"),
        ("itls", [0.1, "x"], "its itls are not all numbers"),
        ("itls", [-0.1], "itls has -0.1, below 0"),
        ("itls", 7, "its itls are 7, not a list"),
        ("output_lens", 1.5, "output_lens has 1.5, not a whole number from 0"),
        ("output_lens", 2**70, "output_lens has 1180591620717411303424, not a whole number from 0"),
        ("errors", 5, "its error is 5, not a text"),
        ("start_times", "now", "start_times has 'now', not a number"),
    ],
)
def test_a_bad_request_is_named_and_the_others_stay(
    imports: Imports, array: str, value: Any, reason: str
) -> None:
    record = vllm_run()
    record[array] = [value, *record[array][1:]]
    result = imports.run(imports.write("run.json", record))

    assert result.exit_code == 3
    assert f"run.json, line 1 (byte 0), request 0: {reason}" in result.output
    assert [row["request"] for row in imports.rows("serving_requests")] == [1, 2]
    (taken,) = imports.rows("imports")
    assert (taken["records_in"], taken["rows_out"], taken["refused"]) == (4, 3, 1)


def test_arrays_of_different_length_give_no_requests(imports: Imports) -> None:
    result = imports.run(imports.write("run.json", vllm_run(ttfts=[0.2, 0.1])))

    assert result.exit_code == 3
    assert "the arrays differ in length: input_lens 3, output_lens 3, ttfts 2" in result.output
    assert (len(imports.rows("serving_runs")), imports.rows("serving_requests")) == (1, [])
    assert imports.rows("imports")[0]["refused"] == 3


def test_latencies_alone_do_not_say_which_request_failed(imports: Imports) -> None:
    record = vllm_summary(num_prompts=2, completed=1, failed=1, latencies=[0.5, 9.0])
    assert imports.run(imports.write("run.json", record)).exit_code == 0
    assert imports.rows("serving_requests") == []
    (refusal,) = json.loads(imports.rows("imports")[0]["refusals_json"])
    assert (refusal["records"], refusal["kind"]) == (2, "empty")
    assert "does not say which of them failed" in refusal["reason"]


def test_latencies_alone_are_enough_where_none_failed(imports: Imports, imported: Imported) -> None:
    imported("run.json", vllm_summary(num_prompts=2, completed=2, failed=0, latencies=[0.5, 0.7]))
    assert [row["e2e_ms"] for row in imports.rows("serving_requests")] == [500.0, 700.0]


def test_embeddings_have_no_output_tokens_and_still_succeed(imported: Imported) -> None:
    names = (
        "total_output_tokens",
        "output_throughput",
        "mean_ttft_ms",
        "median_ttft_ms",
        "p99_ttft_ms",
        "p99.9_ttft_ms",
    )
    record = without(vllm_summary(), *names, "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms")
    (run,) = imported("run.json", {**record, "total_input_sequences": 8, "mean_e2el_ms": 30.0})
    assert (run["status"], run["requests_completed"], run["e2e_mean_ms"]) == ("passed", 8, 30.0)
    assert (run["output_tokens"], run["output_tokens_per_s"]) == (None, None)


@pytest.mark.parametrize("with_knobs", [True, False])
def test_a_sweeps_summary_and_its_runs_count_once(imports: Imports, with_knobs: bool) -> None:
    runs = [vllm_summary(), vllm_summary(duration=2.5)]
    full = [{**run, "run_number": number, "max_num_seqs": 32} for number, run in enumerate(runs)]
    for number, run in enumerate(full if with_knobs else runs):
        imports.write(f"sweep/run={number}.json", run)
    imports.write("sweep/summary.json", full)

    result = imports.run(imports.folder)

    assert result.exit_code == 0, result.output
    assert len(imports.rows("serving_runs")) == 2
    assert imports.extra_of()["max_num_seqs"] == 32
    assert "known: results/sweep/run=0.json" in result.output
    assert "the lake has this run from results/sweep/summary.json" in result.output


def test_the_other_dashboards_copy_is_left_out(imports: Imports) -> None:
    imports.write("run.json", vllm_summary())
    copy = imports.write("run.pytorch.json", [{"benchmark": {"name": "vLLM benchmark"}, "metric": {}}])

    for arguments in ([imports.folder], [imports.folder / "run.json", copy]):
        result = imports.run(*arguments)
        assert result.exit_code == 0
        assert "left out: the same run as run.json" in result.output
    assert len(imports.rows("serving_runs")) == 1


def test_seconds_without_a_suffix_are_not_taken_for_milliseconds(imports: Imports) -> None:
    record = without(vllm_summary(), *(name for name in vllm_summary() if name.endswith("_ms")))
    result = imports.run(imports.write("run.json", {**record, "median_ttft": 3.1}), "--format", "vllm-serve")
    assert result.exit_code == 3
    assert "an object of another kind" in result.output


# --- recorded files


def test_files_with_failures_of_2024(imports: Imports, shared_cases: Path) -> None:
    result = imports.run(shared_cases / "files" / "vllm_2024-11_detailed_983_failed_TRIMMED.json")
    assert result.exit_code == 0
    (run,) = imports.rows("serving_runs")
    assert (run["requests_asked"], run["requests_completed"], run["requests_failed"]) == (1000, 0, 983)
    assert (run["status"], run["ttft_mean_ms"], run["requests_per_s"]) == ("unusable", None, None)
    assert "17 completed without output tokens" in run["reason"]
    assert imports.extra_of()["client_figures_not_used"]["requests_per_s"] == pytest.approx(
        0.3899291161745944
    )


def test_files_with_empty_answers_of_2024(imports: Imports, shared_cases: Path) -> None:
    imports.run(shared_cases / "files" / "vllm_2024-11_detailed_qps16_TRIMMED.json")
    (run,) = imports.rows("serving_runs")
    assert (run["output_tokens_per_s"], run["request_rate_per_s"]) == (
        pytest.approx(1198.8884495761356),
        16.0,
    )
    assert (run["requests_completed"], run["ttft_mean_ms"]) == (None, None)
    assert "8 of the 25 requests that are listed completed without output tokens" in run["reason"]
    rows = imports.rows("serving_requests")
    assert (len(rows), sum(row["ok"] for row in rows)) == (25, 17)


def test_a_file_of_2025_without_backend(imports: Imports, shared_cases: Path) -> None:
    imports.run(shared_cases / "files" / "vllm_2025-09_pd_endpoint_type_only.json")
    (run,) = imports.rows("serving_runs")
    assert (run["engine"], run["model"]) == ("unknown", "openai/gpt-oss-120b")
    assert (run["requests_completed"], run["requests_failed"], run["goodput_per_s"]) == (500, 0, None)
    assert run["ttft_p99_ms"] == pytest.approx(336.6820386599966)


@pytest.mark.parametrize(
    ("name", "rate", "ttft", "tpot", "e2e"),
    [("vllm_c1.json", 346, 19.5, 2.76, 370), ("vllm_c4.json", 797, 30.5, 4.82, 643)],
)
def test_recorded_runs_match_their_published_table(
    imports: Imports, shared_cases: Path, name: str, rate: float, ttft: float, tpot: float, e2e: float
) -> None:
    imports.run(shared_cases / "serve" / name)
    (run,) = imports.rows("serving_runs")
    assert run["output_tokens_per_s"] == pytest.approx(rate, abs=0.5)
    assert run["ttft_p50_ms"] == pytest.approx(ttft, abs=0.05)
    assert run["tpot_p50_ms"] == pytest.approx(tpot, abs=0.005)
    assert run["e2e_p50_ms"] == pytest.approx(e2e, abs=0.5)
    assert run["itl_unit"] == "token"


@pytest.mark.parametrize(
    ("given", "column", "said", "status"),
    [
        ({"num_prompts": 2, "completed": 5}, "requests_completed", "5 requests completed of 2", "unusable"),
        (
            {"output_throughput": -10.0},
            "output_tokens_per_s",
            "output_tokens_per_s is -10, below 0",
            "passed",
        ),
        ({"max_concurrency": 0}, "max_concurrency", "max_concurrency is 0", "passed"),
    ],
)
def test_what_no_run_can_have_is_null_with_its_reason(
    imported: Callable[..., Rows], given: dict[str, Any], column: str, said: str, status: str
) -> None:
    (run,) = imported("run.json", vllm_summary(**given))
    assert (run[column], run["status"]) == (None, status)
    assert said in run["reason"]
