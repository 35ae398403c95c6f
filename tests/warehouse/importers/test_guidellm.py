"""guidellm reports of two generations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.importers.files import Warehouse, brought_in, parsed, refusals, run_of, written
from tests.warehouse.importers.other_samples import guidellm_03, guidellm_08, guidellm_request


@pytest.mark.parametrize("report", [guidellm_03, guidellm_08])
def test_both_generations_give_the_same_run(tmp_path: Path, report: Any) -> None:
    run = run_of(
        parsed(written(tmp_path, "g.json", report({"type_": "concurrent", "streams": 4})), "guidellm")
    )
    asked = ("model", "max_concurrency", "request_rate_mode", "input_tokens_asked", "output_tokens_asked")
    assert [run[name] for name in asked] == ["m", 4, "inf", 32, 8]
    counts = ("requests_completed", "requests_failed", "input_tokens", "output_tokens")
    assert [run[name] for name in counts] == [3, 1, 96, 24]
    times = ("ttft_p50_ms", "ttft_p99_ms", "e2e_mean_ms", "e2e_p99_ms", "itl_mean_ms", "itl_unit")
    assert [run[name] for name in times] == [100.0, 150.0, 500.0, 900.0, 57.0, "token"]
    assert (run["output_tokens_per_s"], run["total_tokens_per_s"], run["duration_s"]) == (16.0, 80.0, 2.0)
    assert (run.get("tpot_mean_ms"), run["status"], run["engine"]) == (None, "passed", "unknown")
    assert "TPOT comes from single requests" in run["reason"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type_": "synchronous"}, (1, None, "inf")),
        ({"type_": "throughput", "max_concurrency": 512}, (None, None, "inf")),
        ({"type_": "constant", "rate": 2.5, "max_concurrency": 10240}, (None, 2.5, "fixed")),
        ({"type_": "poisson", "rate": 4}, (None, 4.0, "fixed")),
        ({"type_": "trace"}, (None, None, "trace")),
        ({"type_": "constant", "rate": -1}, (None, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_a_strategy_is_a_load(tmp_path: Path, strategy: dict[str, Any], expected: tuple[Any, ...]) -> None:
    run = run_of(parsed(written(tmp_path, "g.json", guidellm_08(strategy)), "guidellm"))
    assert (
        tuple(run[name] for name in ("max_concurrency", "request_rate_per_s", "request_rate_mode"))
        == expected
    )


def test_requests_of_the_report_are_rows_and_give_the_tpot(tmp_path: Path) -> None:
    requests = {
        "successful": [
            guidellm_request(),
            guidellm_request(output_tokens=15),
            guidellm_request(output_tokens=0),
        ],
        "errored": [guidellm_request(error="503", request_latency=9.0)],
        "incomplete": [guidellm_request()],
    }
    result = parsed(written(tmp_path, "g.json", guidellm_08({"type_": "synchronous"}, requests)), "guidellm")
    run = run_of(result)
    assert (run["requests_completed"], run["tpot_mean_ms"]) == (2, pytest.approx((100.0 + 50.0) / 2))
    assert (run["e2e_mean_ms"], run["output_tokens"]) == (pytest.approx(800.0), 23)
    rows = [row for table in result.runs[0].requests for row in table.to_pylist()]
    assert [(row["ok"], row["error"]) for row in rows] == [
        (True, None),
        (True, None),
        (False, "completed without output tokens"),
        (False, "503"),
        (False, "incomplete"),
    ]
    assert [row["e2e_ms"] for row in rows] == [pytest.approx(800.0), pytest.approx(800.0), None, None, None]
    assert rows[0]["start_s"] == 0.5


def test_zeros_of_nothing_are_no_measurement(tmp_path: Path) -> None:
    run = run_of(
        parsed(written(tmp_path, "g.json", guidellm_03({"type_": "synchronous"}, successful=0)), "guidellm")
    )
    assert run["status"] == "unusable"
    assert "no usable success in 3 requests" in run["reason"]
    assert {value for name, value in run.items() if name.endswith("_ms") or "_per_s" in name} == {None}


def test_a_benchmark_without_counts_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    report = guidellm_08({"type_": "synchronous"})
    report["benchmarks"].append({"metrics": {}})
    result = parsed(written(tmp_path, "g.json", report), "guidellm")
    assert run_of(result)["requests_completed"] == 3
    (reason,) = refusals(result).values()
    assert "no request_totals" in reason


def test_a_report_is_in_the_lake_once_and_repeats_are_numbered(tmp_path: Path) -> None:
    report = guidellm_08(
        {"type_": "synchronous"}, {"successful": [guidellm_request()], "errored": [], "incomplete": []}, 1
    )
    report["benchmarks"].append({**report["benchmarks"][0], "start_time": 200.0})
    path, lake = written(tmp_path, "g.json", report), tmp_path / "lake"
    for _ in range(2):
        assert brought_in(lake, path, engine="vllm").exit_code(allow_partial=False) == 0
    db = Warehouse(lake)
    assert db.rows("SELECT engine, repeat FROM serving_runs ORDER BY repeat") == [
        {"engine": "vllm", "repeat": 1},
        {"engine": "vllm", "repeat": 2},
    ]
    assert db.row("SELECT count(*) AS n FROM serving_requests")["n"] == 2
    assert db.row("SELECT records_in, rows_out FROM imports") == {"records_in": 4, "rows_out": 4}
