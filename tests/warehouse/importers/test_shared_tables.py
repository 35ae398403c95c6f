"""The shared files of other tools, from the command to the views."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.warehouse.importers.files import Warehouse, brought_in

PAIR = ("aiconfigurator_h200_moe_vllm-0.24.0.parquet", "aiconfigurator_h200_moe_sglang-0.5.14.parquet")


@pytest.fixture(scope="module")
def tables(shared_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse of every kernel table of the cases, each imported twice."""
    lake = tmp_path_factory.mktemp("tables") / "lake"
    files, repro = shared_cases / "files", shared_cases / "repro"
    plain = [files / name for name in (*PAIR, "liger_fused_moe_long_format.csv", "moe_configs")]
    plain += [repro / "09_winners.csv", repro / "10_units.csv"]
    rates = [files / f"triton_perf_report_{name}_tflops.csv" for name in ("moe", "matmul_mnk")]
    for _ in range(2):
        for report in (
            brought_in(lake, *plain),
            brought_in(lake, *rates, unit="TFLOPS", direction="higher"),
            brought_in(lake, repro / "17_perf_report.csv", unit="ms", direction="lower"),
        ):
            assert report.exit_code(allow_partial=False) == 0
    return Warehouse(lake)


def cells(db: Warehouse, benchmark: str) -> dict[str, str]:
    """The cell (or x) -> what is said of it."""
    key = "coalesce(cell_key->>'$.cell', cell_key->>'$.num_tokens')"
    found = db.rows(
        f"SELECT {key} AS cell, outcome_text FROM points_cells WHERE benchmark LIKE '{benchmark}%'"
    )
    return {row["cell"]: row["outcome_text"] for row in found}


def test_the_h200_pair_gives_its_counts_and_its_four_means(tables: Warehouse) -> None:
    entered = tables.rows(
        "SELECT contestant, count(*) AS cells FROM points_entrants WHERE benchmark = 'aiconfigurator moe' GROUP BY 1"
    )
    assert {row["contestant"]: row["cells"] for row in entered} == {"vllm": 2106, "sglang": 1458}
    vllm = tables.row("FROM points_summary WHERE contestant = 'vllm' AND benchmark = 'aiconfigurator moe'")
    sglang = tables.row(
        "FROM points_summary WHERE contestant = 'sglang' AND benchmark = 'aiconfigurator moe'"
    )
    counts = ("shared_cells", "faster_cells", "slower_cells", "equal_cells", "within_1_percent_cells")
    assert [vllm[name] for name in counts] == [1458, 278, 1180, 0, 98]
    assert [sglang[name] for name in counts] == [1458, 1180, 278, 0, 98]
    # t_rival / t_this of vLLM is the time of SGLang over that of vLLM.
    means = ("speedup_geomean", "speedup_mean", "speedup_median", "speedup_of_sums")
    assert [round(vllm[name], 4) for name in means] == [0.9318, 0.9380, 0.9214, 0.9513]
    assert (vllm["alone_cells"], sglang["alone_cells"]) == (648, 0)
    alone = tables.rows(
        "SELECT outcome_text FROM points_cells "
        "WHERE benchmark = 'aiconfigurator moe' AND outcome = 'sole entrant'"
    )
    assert Counter(row["outcome_text"] for row in alone) == {"sole entrant: vllm 0.24.0": 648}


def test_the_winners_of_the_latency_table(tables: Warehouse) -> None:
    assert cells(tables, "09_winners") == {
        "A": "tie: sglang, vllm",
        "B": "vllm faster over triton_naive (point figures), refused: sglang (nan)",
        "C": "sole entrant: vllm",
        "D": "tie: sglang, vllm",
        "E": "sole entrant: sglang, refused: vllm (the value is not positive)",
        "F": "tie: sglang, vllm",
        "G": "sole entrant: sglang, refused: vllm (the value is not positive)",
    }
    repeated = tables.row("FROM points_entrants WHERE cell_key->>'$.cell' = 'D' AND contestant = 'vllm'")
    assert (repeated["figures"], repeated["value"]) == (2, pytest.approx(1100.0))


def test_the_units_table_in_one_unit(tables: Warehouse) -> None:
    entrants = tables.rows("FROM points_entrants WHERE benchmark LIKE '10_units%' AND metric = 'time_us'")
    milliseconds = {row["contestant"]: row["value"] and row["value"] / 1e3 for row in entrants}
    assert milliseconds == {
        "vllm": pytest.approx(0.25),
        "sglang": pytest.approx(0.30),
        "triton": pytest.approx(0.28),
        "deepgemm": pytest.approx(0.31),
        "unknown": None,
    }
    assert cells(tables, "10_units") == {
        "A": "vllm faster over deepgemm, sglang, triton (point figures), refused: unknown (no unit)",
        "B": "sglang faster over vllm (point figures)",
    }
    speedups = tables.rows("FROM points_pairs WHERE benchmark LIKE '10_units%' AND metric = 'tflops'")
    assert {row["contestant"]: row["speedup_vs_rival"] for row in speedups} == {
        "sglang": pytest.approx(1.2),
        "vllm": pytest.approx(0.8333, abs=1e-4),
    }


def test_the_perf_report_lists_who_is_missing(tables: Warehouse) -> None:
    assert cells(tables, "17_perf_report") == {
        "1": "tie: SGLang, vLLM fused-MoE",
        "16": "SGLang faster over Triton (naive) (point figures), refused: vLLM fused-MoE (no value)",
        "256": "vLLM fused-MoE faster over Triton (naive) (point figures), refused: SGLang (nan)",
    }


def test_the_table_of_the_wrong_kernel_is_never_a_verified_winner(tables: Warehouse) -> None:
    where = "WHERE benchmark LIKE 'triton_perf_report_moe%'"
    assert tables.row(
        f"SELECT count(*) AS n, min(status) AS low, max(status) AS high FROM points {where}"
    ) == {
        "n": 20,
        "low": "unverified",
        "high": "unverified",
    }
    outcomes = tables.rows(f"SELECT DISTINCT outcome FROM points_cells {where}")
    assert outcomes == [{"outcome": "faster (point figures)"}]
    assert tables.rows("FROM winners") == []


def test_liger_s_times_and_sizes_are_apart(tables: Warehouse) -> None:
    rows = tables.rows(
        "SELECT benchmark, metric, shared_cells FROM points_summary WHERE contestant = 'liger' ORDER BY ALL"
    )
    modes = ("backward", "forward", "full")
    assert [(row["benchmark"], row["metric"], row["shared_cells"]) for row in rows] == [
        (f"liger fused_moe {mode}", metric, 13) for mode in modes for metric in ("memory_mb", "time_us")
    ]
    quantiles = "SELECT count(*) AS n FROM points WHERE value_p20 <= value AND value <= value_p80"
    assert tables.row(quantiles)["n"] == 168


def test_the_tuned_tables_keep_their_keys_and_versions(tables: Warehouse) -> None:
    rows = tables.rows(
        "SELECT n, loader, tuned_triton_version, count(*) AS entries, max(tokens) AS largest "
        "FROM tuned_configs GROUP BY ALL ORDER BY n"
    )
    assert [tuple(row.values()) for row in rows] == [
        (192, None, "3.5.0", 18, 4096),
        (384, "sglang", None, 18, 4096),
        (768, None, None, 18, 4096),
    ]


def test_importing_twice_adds_nothing(tables: Warehouse) -> None:
    totals = tables.row(
        "SELECT sum(records_in) AS records, sum(rows_out) AS rows, count(*) AS files FROM imports"
    )
    records = 2106 + 1458 + 168 + 3 * 18 + 17 + 7 + 20 + 24 + 9
    assert totals == {"records": records, "rows": records, "files": 11}


def test_guidellm_and_the_study_in_seconds(shared_cases: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    names = ("guidellm_0.8_report_v2.json", "inferencex_slo_seconds_units.json")
    report = brought_in(lake, *(shared_cases / "files" / name for name in names))
    assert report.exit_code(allow_partial=False) == 0
    db = Warehouse(lake)
    first, second = db.rows("FROM serving_runs WHERE client = 'guidellm' ORDER BY request_rate_per_s")
    assert (first["request_rate_per_s"], second["request_rate_per_s"]) == (2.0, 4.0)
    assert (first["input_tokens"], first["output_tokens"], first["requests_failed"]) == (143, 16, 0)
    assert first["e2e_mean_ms"] == pytest.approx(19.789, abs=1e-3)
    study = db.row("FROM serving_runs WHERE client = 'inferencemax'")
    assert study["ttft_p50_ms"] == pytest.approx(3138.24, abs=0.01)
    assert study["tpot_p50_ms"] == pytest.approx(141.05, abs=0.01)
    assert (study["requests_failed"], study["request_rate_mode"]) == (0, "inf")
