"""The small formats of served engines: offline throughput, one batch, a study's cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.warehouse.importers.conftest import Imports, Rows
from tests.warehouse.importers.samples import CELL, THROUGHPUT, lines, one_batch, vllm_summary
from warehouse.build import build

Imported = Callable[..., Rows]


def test_offline_throughput_has_no_latency(imported: Imported) -> None:
    (run,) = imported("throughput.json", THROUGHPUT)
    assert (run["engine"], run["client"], run["duration_s"]) == ("vllm", "vllm bench throughput", 123.0)
    assert (run["requests_per_s"], run["total_tokens_per_s"]) == (0.52, 1130.8)
    assert (run["requests_asked"], run["input_tokens"], run["output_tokens_per_s"]) == (64, None, None)
    assert {value for name, value in run.items() if name.endswith("_ms")} == {None}


def test_offline_throughput_as_recorded(imports: Imports, shared_cases: Path) -> None:
    assert imports.run(shared_cases / "files" / "vllm_throughput_bench_1.json").exit_code == 0
    (run,) = imports.rows("serving_runs")
    assert run["total_tokens_per_s"] == pytest.approx(1130.8396679636674)
    assert imports.extra_of() == {"total_num_tokens": 139264}


def test_a_batch_is_a_run_without_concurrency(imported: Imported) -> None:
    (run,) = imported("batch.jsonl", lines(one_batch()))
    assert (run["requests_asked"], run["input_tokens_asked"], run["output_tokens_asked"]) == (16, 1024, 8)
    assert (run["e2e_mean_ms"], run["output_tokens_per_s"], run["max_concurrency"]) == (250.0, 512.0, None)


def test_a_heading_tells_equal_lines_apart(imports: Imports, imported: Imported) -> None:
    runs = imported("batch.jsonl", "a tp4:\n\n" + lines(one_batch()) + "\nb tp4:\n" + lines(one_batch()))
    assert [run["repeat"] for run in runs] == [1, 1]
    assert [imports.extra_of(number)["section"] for number in (0, 1)] == ["a tp4", "b tp4"]


def test_batches_under_headings_as_recorded(imports: Imports, shared_cases: Path) -> None:
    assert imports.run(shared_cases / "files" / "sglang_bench_one_batch_sections.jsonl").exit_code == 0
    runs = imports.rows("serving_runs")
    assert [run["repeat"] for run in runs] == [1, 1, 1, 2, 2, 2, 1, 1, 1]
    assert [imports.extra_of(number)["section"] for number in (0, 5, 6)] == [
        "torch_tp4",
        "torch_tp4",
        "te_tp4",
    ]
    assert runs[0]["e2e_mean_ms"] == pytest.approx(82.8)


def test_cells_of_a_study(imported: Imported) -> None:
    vllm, sglang = imported("cells.json", CELL)
    assert (vllm["engine"], vllm["input_tokens"], vllm["output_tokens"], vllm["duration_s"]) == (
        "vllm",
        8192,
        4096,
        6.0,
    )
    assert (sglang["engine"], sglang["max_concurrency"], sglang["requests_completed"]) == ("sglang", 16, 32)
    assert (vllm["client"], vllm["prefix_cache"]) == ("unknown", "unknown")


def test_a_contestant_without_a_name_is_refused(imports: Imports) -> None:
    broken = {**CELL, "contestants": [*CELL["contestants"], {"completed": 3}, 7]}
    result = imports.run(imports.write("cells.json", broken))
    assert result.exit_code == 3
    assert "contestant 3: a contestant without a framework" in result.output
    assert "contestant 4: a contestant that is no object" in result.output
    assert len(imports.rows("serving_runs")) == 2


def test_unequal_work_has_no_leader(imports: Imports, shared_cases: Path) -> None:
    assert imports.run(shared_cases / "repro" / "01_unequal_workload.json").exit_code == 0
    db = imports.folder / "warehouse.db"
    build([imports.lake], db)
    with duckdb.connect(str(db), read_only=True) as con:
        judged = con.execute("SELECT metric, outcome, leader, faster, margin, reason FROM serving").fetchall()
        pairs = con.execute("SELECT speedup_vs_rival, reason FROM serving_pairs").fetchall()
    assert [row[:5] for row in judged] == [("output_tokens_per_s", "no comparison", None, None, None)]
    assert "unequal workload: 3742 tokens in and 2196 out against 8192 and 4096" in judged[0][5]
    assert [ratio for ratio, _ in pairs] == [None, None]
    assert all("unequal workload" in reason for _, reason in pairs)


def test_answers_without_tokens_never_enter_the_view(imports: Imports, shared_cases: Path) -> None:
    imports.run(shared_cases / "repro" / "03_completed_without_tokens.json")
    db = imports.folder / "warehouse.db"
    build([imports.lake], db)
    with duckdb.connect(str(db), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM serving_entries").fetchall() == [(0,)]
        (kept,) = con.execute(
            "SELECT requests_asked, requests_completed, requests_failed, status, ttft_mean_ms FROM serving_runs"
        ).fetchall()
    assert kept == (5, 0, 3, "unusable", None)


def judged(imports: Imports, query: str) -> list[tuple[object, ...]]:
    db = imports.folder / "warehouse.db"
    build([imports.lake], db)
    with duckdb.connect(str(db), read_only=True) as con:
        return con.execute(query).fetchall()


@pytest.mark.parametrize(
    ("facts", "outcome", "reason"),
    [
        (("--prefix-cache", "off"), "faster (point figures)", None),
        ((), "no comparison", "sglang and vllm: prefix cache unknown"),
    ],
)
def test_equal_work_of_one_client_is_compared_as_point_figures(
    imports: Imports, facts: tuple[str, ...], outcome: str, reason: str | None
) -> None:
    imports.write("a.json", vllm_summary())
    imports.write("b.json", vllm_summary(backend="sglang", duration=2.5, output_throughput=160.0))
    assert imports.run(imports.folder, *facts).exit_code == 0

    query = "SELECT outcome, leader, faster, margin, reason FROM serving WHERE metric = 'output_tokens_per_s'"
    faster = ("vllm", pytest.approx(1.25)) if reason is None else (None, None)
    assert judged(imports, query) == [(outcome, None, *faster, reason)]


def test_other_work_is_no_repeat(imports: Imports) -> None:
    imports.write("a.json", vllm_summary())
    imports.write("b.json", vllm_summary(duration=2.1, output_throughput=400 / 2.1))
    imports.write("c.json", vllm_summary(duration=20.0, total_input_tokens=800, total_output_tokens=4000))
    imports.run(imports.folder)

    query = "SELECT entrant, repeats, input_tokens, output_tokens FROM serving_entrants ORDER BY ALL"
    assert judged(imports, query) == [("vllm", 1, 800, 4000), ("vllm (setting 2)", 2, 8000, 400)]
