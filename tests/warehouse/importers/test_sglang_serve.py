"""SGLang bench_serving: JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.importers.conftest import Imports, Rows
from tests.warehouse.importers.samples import lines, sglang_run

Imported = Callable[..., Rows]

DETAIL = {
    "input_lens": [10, 10, 10],
    "output_lens": [5, 1, 3],
    "ttfts": [0.1, 0.0, 0.2],
    "itls": [[0.05] * 4, [], [0.1, 0.1]],
    "errors": ["", "", ""],
    "completed": 3,
    "total_output_tokens": 9,
    "total_output_tokens_retokenized": 9,
}


def test_a_line_is_a_run(imported: Imported) -> None:
    (run,) = imported("sglang.jsonl", lines(sglang_run()))

    assert (run["engine"], run["engine_version"], run["client"]) == (
        "sglang",
        "0.5.20",
        "sglang bench_serving",
    )
    assert (run["model"], run["weights"], run["prefix_cache"]) == ("m", "dummy", "off")
    assert (run["ttft_mean_ms"], run["ttft_p50_ms"], run["e2e_mean_ms"], run["e2e_p50_ms"]) == (
        50,
        48,
        900,
        880,
    )
    assert (run["input_tokens_asked"], run["output_tokens_asked"]) == (128, 64)
    assert (run["output_tokens_per_s"], run["total_tokens_per_s"]) == (80.0, 160.0)
    assert (run["requests_asked"], run["requests_failed"]) == (None, None)
    assert "how many requests failed is not in the file" in run["reason"]
    assert json.loads(run["server_args_json"])["load_format"] == "dummy"


def test_nothing_completed_is_nan_in_the_file_and_null_here(imported: Imported) -> None:
    (run,) = imported(
        "sglang.jsonl",
        lines(
            sglang_run(
                request_rate="trace",
                completed=0,
                total_output_tokens=0,
                mean_e2e_latency_ms=float("nan"),
                median_ttft_ms=0.0,
            )
        ),
    )
    assert (run["status"], run["request_rate_mode"]) == ("unusable", "trace")
    assert {value for name, value in run.items() if name.endswith("_ms")} == {None}
    assert "mean_e2e_latency_ms is nan" in run["reason"]


def test_a_one_token_answer_lost_its_time(imports: Imports, imported: Imported) -> None:
    (run,) = imported("sglang.jsonl", lines(sglang_run(**DETAIL)))

    assert (run["e2e_mean_ms"], run["ttft_mean_ms"]) == (900.0, 50.0)  # the client's, which has all three
    assert "e2e: 1 of 3 requests have none, the figures are the client's" in run["reason"]
    assert run["tpot_mean_ms"] == pytest.approx((50 + 100) / 2)  # of the two that have one
    assert [row["e2e_ms"] for row in imports.rows("serving_requests")] == [
        pytest.approx(300.0),
        None,
        pytest.approx(400.0),
    ]
    assert (run["requests_asked"], run["requests_failed"]) == (3, 0)


def test_a_line_that_lost_requests_keeps_the_clients_figures(imported: Imported) -> None:
    (run,) = imported(
        "sglang.jsonl", lines(sglang_run(**{**DETAIL, "completed": 80, "total_output_tokens": 800}))
    )
    assert (run["requests_completed"], run["e2e_mean_ms"], run["output_tokens"]) == (80, 900.0, 800)
    assert "of 80 requests 3 are listed" in run["reason"]


def test_lengths_of_a_dataset_are_not_those_of_the_random_one(imports: Imports, imported: Imported) -> None:
    (run,) = imported("sglang.jsonl", lines(sglang_run(dataset_name="sharegpt")))
    assert (run["input_tokens_asked"], run["output_tokens_asked"]) == (None, None)
    assert imports.extra_of()["random_input_len"] == 128


def test_the_versions_of_prefill_and_decode_may_differ(imported: Imported) -> None:
    info = {"prefill": [{"version": "0.5.5.post3"}], "decode": [{"version": "0.5.6"}, {"version": "0.5.6"}]}
    (run,) = imported("sglang.jsonl", lines(sglang_run(server_info=info)))
    assert run["engine_version"] is None
    assert "its servers differ (0.5.5.post3, 0.5.6)" in run["reason"]


def test_a_large_gap_between_token_counts_is_said(imported: Imported) -> None:
    (run,) = imported("sglang.jsonl", lines(sglang_run(total_output_tokens_retokenized=400)))
    assert "output tokens are 800 as counted and 400 as tokenised again" in run["reason"]


def test_a_line_of_2024_has_less(imported: Imported) -> None:
    names = (
        "tag",
        "server_info",
        "request_throughput",
        "total_throughput",
        "mean_ttft_ms",
        "mean_tpot_ms",
        "mean_itl_ms",
    )
    old = {name: value for name, value in sglang_run().items() if name not in names}
    (run,) = imported("sglang.jsonl", lines(old))
    assert (run["ttft_p50_ms"], run["ttft_mean_ms"], run["requests_per_s"], run["model"]) == (
        48.0,
        None,
        None,
        None,
    )
    assert "not in the file: model, device" in run["reason"]


def test_the_same_line_counts_once_and_a_repeat_is_a_repeat(imports: Imports) -> None:
    first = sglang_run()
    result = imports.run(imports.write("sglang.jsonl", lines(first, first, sglang_run(duration=11.0))))

    assert result.exit_code == 0
    assert "repeated: sglang.jsonl, line 2" in result.output
    assert [(run["duration_s"], run["repeat"]) for run in imports.rows("serving_runs")] == [
        (10.0, 1),
        (11.0, 2),
    ]


def test_a_file_that_grew_adds_only_what_is_new(imports: Imports) -> None:
    first, second = sglang_run(), sglang_run(duration=11.0)
    path = imports.write("sglang.jsonl", lines(first))
    imports.run(path)
    imports.write("sglang.jsonl", lines(first, second))

    result = imports.run(path)

    assert result.exit_code == 0
    assert "the lake has this run from sglang.jsonl" in result.output
    assert [(run["duration_s"], run["repeat"]) for run in imports.rows("serving_runs")] == [
        (10.0, 1),
        (11.0, 2),
    ]
    assert [(row["records_in"], row["rows_out"], row["refused"]) for row in imports.rows("imports")] == [
        (1, 1, 0),
        (2, 1, 1),
    ]


# --- recorded files


def test_infinity_nan_and_a_line_that_is_cut_short(imports: Imports, shared_cases: Path) -> None:
    path = shared_cases / "repro" / "04_inf_nan_truncated.jsonl"
    result = imports.run(path)

    assert result.exit_code == 3
    assert "04_inf_nan_truncated.jsonl, line 4 (byte 568): cut short" in result.output
    first, second = imports.rows("serving_runs")
    assert (first["request_rate_per_s"], first["request_rate_mode"], first["e2e_mean_ms"]) == (
        None,
        "inf",
        400.0,
    )
    assert (second["request_rate_mode"], second["e2e_mean_ms"], second["requests_completed"]) == (
        "trace",
        None,
        0,
    )
    assert second["status"] == "unusable"
    (taken,) = imports.rows("imports")
    assert (taken["records_in"], taken["rows_out"], taken["refused"]) == (3, 2, 1)
    assert imports.run(path, "--allow-partial").exit_code == 0


def test_two_of_three_lines_are_runs(imports: Imports, shared_cases: Path) -> None:
    path = shared_cases / "repro" / "16_rerun_append.jsonl"
    assert imports.run(path).exit_code == 0
    kept = [(run["output_tokens_per_s"], run["repeat"]) for run in imports.rows("serving_runs")]
    assert kept == [(80.0, 1), (pytest.approx(72.73, abs=0.005), 2)]
    files = imports.files()
    assert "nothing new" in imports.run(path).output
    assert imports.files() == files


@pytest.mark.parametrize(
    "name", ["sglang_2024-12_multi_run_infinity.jsonl", "sglang_2024-12_online_rates.jsonl"]
)
def test_files_of_2024(imports: Imports, shared_cases: Path, name: str) -> None:
    path = shared_cases / "files" / name
    assert imports.run(path).exit_code == 0
    read: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    runs = imports.rows("serving_runs")
    assert [run["output_tokens_per_s"] for run in runs] == [line["output_throughput"] for line in read]
    assert [run["ttft_p50_ms"] for run in runs] == [line["median_ttft_ms"] for line in read]
    assert [run["request_rate_mode"] for run in runs] == [
        "inf" if line["request_rate"] == float("inf") else "fixed" for line in read
    ]
    repeats = [run["repeat"] for run in runs]
    assert repeats.count(2) == (1 if "multi" in name else 0)


@pytest.mark.parametrize(
    ("name", "rate", "ttft", "tpot", "e2e"),
    [("sglang_c1.json", 314, 23.2, 3.00, 404), ("sglang_c4.json", 739, 38.0, 5.10, 682)],
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
    assert (run["prefix_cache"], run["weights"], run["engine_version"]) == ("off", "dummy", "0.5.20")
