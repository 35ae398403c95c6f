"""Kernel tables of other tools: perf_report, Liger, aiconfigurator, and CSV with a unit a line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.warehouse.importers.files import brought_in, parsed, points, refusals, written
from tests.warehouse.importers.other_samples import PERF, UNITS, aiconfigurator, liger
from warehouse.importers.base import FormatError, MissingFactError


def test_a_perf_report_becomes_times_by_its_unit(tmp_path: Path) -> None:
    result = parsed(written(tmp_path, "moe.csv", PERF), "triton-perf-report", unit="ms", direction="lower")
    rows = points(result)
    assert [(r["contestant"], r["tokens"], r["value"], r["reason"]) for r in rows] == [
        ("Triton (naive)", 1, pytest.approx(41.0), None),
        ("vLLM", 1, pytest.approx(40.0), None),
        ("Triton (naive)", 16, None, "no value"),
        ("vLLM", 16, None, "nan"),
    ]
    assert {(r["metric"], r["lower_is_better"], r["status"]) for r in rows} == {
        ("time_us", True, "unverified")
    }
    assert rows[0]["cell_key"] == rows[1]["cell_key"] != rows[2]["cell_key"]
    assert result.notes == ["x: num_tokens; contestants: Triton (naive), vLLM"]


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "neither its unit nor which direction"),
        ({"unit": "ms"}, "give --unit"),
        ({"direction": "lower"}, "give --unit"),
        ({"unit": "furlongs", "direction": "lower"}, "'furlongs' is no unit"),
        ({"unit": "ms", "direction": "higher"}, "contradict"),
        ({"unit": "TFLOPS", "direction": "lower"}, "contradict"),
        ({"unit": "ms", "direction": "up"}, "'up' is no direction"),
    ],
)
def test_a_perf_report_is_never_guessed_at(tmp_path: Path, facts: dict[str, str], sentence: str) -> None:
    path = written(tmp_path, "moe.csv", PERF)
    with pytest.raises(MissingFactError, match=sentence):
        parsed(path, "triton-perf-report", **facts)


def test_columns_of_whole_numbers_are_x(tmp_path: Path) -> None:
    table = "M,N,K,cuBLAS\n256.000000,256.000000,128.000000,5.461333\n384.000000,256.000000,128.000000,13.0\n"
    rows = points(
        parsed(written(tmp_path, "m.csv", table), "triton-perf-report", unit="TFLOPS", direction="higher")
    )
    assert [json.loads(row["cell_key"])["M"] for row in rows] == [256, 384]
    assert {row["contestant"] for row in rows} == {"cuBLAS"}
    with pytest.raises(FormatError, match="cannot be told from a contestant"):
        parsed(
            written(tmp_path, "w.csv", "M,A\n1.0,2.0\n"), "triton-perf-report", unit="ms", direction="lower"
        )


def test_a_bad_line_of_a_perf_report_is_named_and_the_others_stay(tmp_path: Path) -> None:
    path = written(tmp_path, "moe.csv", "m,A\n1.000000,0.5\n2.000000,0.5,0.6\n3.000000,0.25\n")
    result = parsed(path, "triton-perf-report", unit="ms", direction="lower")
    assert [row["value"] for row in points(result)] == [500.0, 250.0]
    assert refusals(result) == {"line 3": "3 cells under 2 names"}


def test_a_line_cut_short_makes_no_contestant_of_an_x(tmp_path: Path) -> None:
    table = (
        "M,N,K,cuBLAS\n256.000000,256.000000,128.000000,5.5\n384.000000,many,128.000000,13.5\n384.000000,25"
    )
    result = parsed(
        written(tmp_path, "m.csv", table), "triton-perf-report", unit="TFLOPS", direction="higher"
    )
    assert [row["contestant"] for row in points(result)] == ["cuBLAS"]
    assert refusals(result) == {"line 3": "N is 'many', not a number", "line 4": "2 cells under 4 names"}


def test_figures_of_two_perf_reports_never_meet(tmp_path: Path) -> None:
    keys = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = written(tmp_path / folder, "moe.csv", f"m,A\n1.000000,0.{len(folder)}{len(keys)}1\n")
        keys.append(points(parsed(path, "triton-perf-report", unit="ms", direction="lower"))[0]["cell_key"])
    assert len(set(keys)) == 2


def test_times_meet_in_one_unit_and_a_figure_without_one_is_refused(tmp_path: Path) -> None:
    rows = points(parsed(written(tmp_path, "u.csv", UNITS), "units-csv"))
    found = {row["contestant"]: row for row in rows[:7]}
    values = {name: row["value"] for name, row in found.items() if row["status"] == "unverified"}
    assert values == pytest.approx({"vllm": 250.0, "sglang": 300.0, "triton": 280.0, "deepgemm": 310.0})
    reasons = {name: row["reason"] for name, row in found.items() if row["status"] == "refused"}
    assert reasons == {
        "unknown": "no unit",
        "odd": "'TFLOPS' is no unit of a latency",
        "lost": "the value is not positive",
    }
    assert {row["metric"] for row in found.values()} == {"time_us"}
    assert json.loads(found["unknown"]["conditions_json"]) == {"written": "0.29"}
    assert (rows[7]["metric"], rows[7]["value"], rows[7]["lower_is_better"]) == ("tflops", 100.0, False)


def test_the_unit_may_stand_in_the_column_and_other_columns_are_the_cell(tmp_path: Path) -> None:
    table = (
        "cell,framework,run,shape,latency_ms\nA,vllm,1,small,1.0\nA,vllm,2,small,nan\nA,vllm,1,large,4.0\n"
    )
    rows = points(parsed(written(tmp_path, "w.csv", table), "units-csv"))
    assert [row["value"] for row in rows] == [1000.0, None, 4000.0]
    assert rows[1]["reason"] == "nan"
    assert rows[0]["cell_key"] == rows[1]["cell_key"] != rows[2]["cell_key"]
    assert rows[0]["conditions_json"] != rows[1]["conditions_json"]


def test_a_given_unit_is_for_the_lines_that_have_none(tmp_path: Path) -> None:
    result = parsed(written(tmp_path, "u.csv", UNITS), "units-csv", unit="ms")
    assert {row["contestant"]: row["value"] for row in points(result)}["unknown"] == pytest.approx(290.0)
    assert result.notes == []
    table = "cell,framework,latency_ms\nA,vllm,1.0\n"
    result = parsed(written(tmp_path, "w.csv", table), "units-csv", unit="s")
    assert [row["value"] for row in points(result)] == [1000.0]
    assert result.notes[0].startswith("--unit changes nothing")


def test_two_metrics_with_one_unit_are_two_cells(tmp_path: Path) -> None:
    table = "cell,framework,value,unit,metric\nA,vllm,1,ms,ttft\nA,vllm,2,ms,e2e\n"
    rows = points(parsed(written(tmp_path, "m.csv", table), "units-csv"))
    assert len({row["cell_key"] for row in rows}) == 2


def test_a_line_of_liger_is_a_median_with_its_quantiles(tmp_path: Path) -> None:
    (row,) = points(parsed(written(tmp_path, "liger.csv", liger({})), "liger"))
    assert (row["value"], row["value_p20"], row["value_p80"]) == (4000.0, 3000.0, 5000.0)
    shape = ("tokens", "experts", "top_k", "hidden", "intermediate", "precision")
    assert [row[name] for name in shape] == [8192, 128, 8, 2048, 768, "bf16"]
    assert (row["device"], row["version"]) == ("NVIDIA H100 80GB HBM3", "0.7.0")


def test_time_and_memory_of_liger_never_meet_and_the_sweeps_do(tmp_path: Path) -> None:
    sweep = '"{""sweep_dim"": ""E"", ""T"": 8192, ""E"": null, ""H"": 2048, ""intermediate_dim"": 768, ""K"": 8, ""dtype"": ""torch.bfloat16""}"'
    table = liger(
        {},
        {"metric_name": "memory", "metric_unit": "MB"},
        {"x_name": "E", "x_value": "128", "extra_benchmark_config_str": sweep, "timestamp": "later"},
        {"kernel_provider": "huggingface"},
    )
    time, memory, again, other = points(parsed(written(tmp_path, "liger.csv", table), "liger"))
    assert (time["metric"], memory["metric"]) == ("time_us", "memory_mb")
    assert time["cell_key"] == again["cell_key"] == other["cell_key"]
    assert time["conditions_json"] != again["conditions_json"]
    assert other["version"] is None


def test_a_line_of_liger_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    table = liger(
        {},
        {"extra_benchmark_config_str": '"{""T"": 1}"'},
        {"extra_benchmark_config_str": "cut"},
        {"metric_unit": "furlongs"},
        {"x_value": "many"},
    )
    result = parsed(written(tmp_path, "liger.csv", table), "liger")
    assert len(points(result)) == 1
    assert refusals(result) == {
        "line 3": "T is 1 in the shape and 8192 as x",
        "line 4": "extra_benchmark_config_str is no JSON object",
        "line 5": "'furlongs' is no unit that is known",
        "line 6": "x is 'many', not a number with a name",
    }


def test_engines_of_aiconfigurator_meet_in_a_cell(tmp_path: Path) -> None:
    vllm, sglang = points(parsed(written(tmp_path, "moe.parquet", aiconfigurator()), "aiconfigurator"))
    assert (vllm["contestant"], vllm["version"], vllm["value"]) == ("vllm", "0.24.0", 500.0)
    assert (sglang["contestant"], sglang["precision"], sglang["routing"]) == ("sglang", "bf16", "balanced")
    assert vllm["cell_key"] == sglang["cell_key"]
    assert vllm["conditions_json"] != sglang["conditions_json"]


@pytest.mark.parametrize("name", ["num_tokens", "moe_ep_size", "distribution", "op_name", "moe_dtype"])
def test_a_row_of_another_shape_is_another_cell(tmp_path: Path, name: str) -> None:
    other = [1, 2] if name.startswith(("num", "moe_ep")) else ["x", "y"]
    first, second = points(
        parsed(written(tmp_path, "moe.parquet", aiconfigurator(**{name: other})), "aiconfigurator")
    )
    assert first["cell_key"] != second["cell_key"]


def test_a_row_without_its_shape_is_refused_and_one_without_a_latency_is_null(tmp_path: Path) -> None:
    path = written(tmp_path, "moe.parquet", aiconfigurator(topk=[8, None], latency=[float("nan"), 1.0]))
    result = parsed(path, "aiconfigurator")
    (row,) = points(result)
    assert (row["value"], row["reason"]) == (None, "nan")
    assert refusals(result) == {"row 1": "topk is None"}


def test_text_types_of_older_tables_are_the_same_cells(tmp_path: Path) -> None:
    new = written(tmp_path, "new.parquet", aiconfigurator())
    large = pa.array(["balanced"] * 2, pa.large_string())
    old = written(tmp_path, "old.parquet", aiconfigurator(distribution=large, latency=[0.5, 0.5]))
    keys = {row["cell_key"] for path in (new, old) for row in points(parsed(path, "aiconfigurator"))}
    assert len(keys) == 1


def test_a_damaged_parquet_is_refused_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "moe.parquet", aiconfigurator())
    path.write_bytes(path.read_bytes()[:-20])
    report = brought_in(tmp_path / "lake", path)
    assert report.exit_code(allow_partial=True) == 3
    assert not (tmp_path / "lake" / "points").exists()
