"""The sections beside the race: what they say, that they stay apart, and that they stay small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks.gate import GateResult
from checks.report import compose
from checks.report.sections import decode_verdict, gate_verdict, serving_verdict
from checks.session import Session
from tests.checks.conftest import CELLS, ENTRANTS, write_race
from tests.checks.report.browser import console
from tests.evidence import write_decode, write_gate, write_points, write_price, write_serving
from tests.lakes import Entrant, Race, control
from warehouse.build import build

LARGEST = 3_000_000  # bytes


def composed(folder: Path) -> dict[str, str]:
    build([folder / "lake"], folder / "warehouse.db")
    with Session(folder / "warehouse.db", [folder / "lake"], None, folder) as session:
        return compose(session, GateResult((), ()))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report of a lake that has everything; imported figures are more than a table shows."""
    folder = tmp_path_factory.mktemp("everything")
    lake = write_race(folder / "lake", Race(entrants=ENTRANTS, cells=CELLS))
    write_gate(lake, number=90, disagreements={"auto_bf16": 7})  # superseded
    write_gate(
        lake,
        number=100,
        disagreements={"auto_bf16": 5, "auto_int8_w8a8": 20},
        voided=("naive_bf16",),
    )
    write_decode(lake, {"stock_eager_bf16": 250.0, "dispatch_graph_bf16": 800.0})
    write_serving(lake, {"vllm": 90.0, "sglang": 110.0})
    write_serving(
        lake,
        {"humming": 1.0},
        number=301,
        loads=(1,),
        repeats=1,
        status="refused",
        reason="humming is no server",
    )
    write_price(lake, 3.6)
    write_points(lake, {"rival-a": [1.0, 2.0, *[3.0] * 398], "rival-b": [1.5, 1.9, *[4.0] * 398]})
    return composed(folder)


@pytest.fixture(scope="module")
def html(report: dict[str, str]) -> str:
    return report["report.html"]


def section(html: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">(.*?)</section>', html, re.DOTALL)
    assert found, name
    return found[1]


def cells(html: str, first: str) -> list[str]:
    """The fields of the table row that begins with ``first``."""
    (row,) = re.findall(rf"<tr><td[^>]*>{re.escape(first)}</td>(.*?)</tr>", html, re.DOTALL)
    return re.findall(r"<td[^>]*>(.*?)</td>", row)


def test_of_every_producer_the_runs_that_the_sections_stand_on_speak(report: dict[str, str]) -> None:
    """One superseded run of the gate and one refused run of a served engine say nothing."""
    runs = re.findall(
        r"^\| \S+ \| (race|gate|decode|serve) \|.* (yes|no) \| *$", report["report.md"], re.MULTILINE
    )
    assert sorted(runs) == [
        ("decode", "yes"),
        ("gate", "no"),
        ("gate", "yes"),
        ("race", "yes"),
        ("serve", "no"),
        ("serve", "yes"),
    ]


def test_every_kind_of_evidence_has_a_section_of_its_own_that_says_what_it_is_not(html: str) -> None:
    for name, words in {
        "gate": "Not comparable with kernel times.",
        "decode": "Not comparable with kernel times or served engines.",
        "serving": "Not comparable with kernel times or in-model decode.",
        "points": "they cannot win",
        "costs": "They are never added up.",
    }.items():
        assert words in section(html, name)
        assert f'<li><a href="#{name}">' in html


def test_the_gate_shows_the_run_that_speaks_and_every_verdict(report: dict[str, str], html: str) -> None:
    verdict = "4 of 5 candidates passed at 1036 positions each. naive_bf16 is void"
    assert f"Correctness gate, Test GPU, tiny (seeded weights).</b> {verdict}" in html
    assert f"- **Correctness gate, Test GPU, tiny (seeded weights)**: {verdict}" in report["report.md"]
    gate = section(html, "gate")
    table = gate.partition("</table>")[0]
    assert cells(table, "auto_bf16")[:3] == ["passed", "1036", "5"]
    assert cells(table, "naive_bf16")[0] == "void"
    assert "layer 0 ran stock" in gate
    assert "Every run of the gate (2)" in gate


def test_the_histogram_of_gaps_counts_each_position_once(html: str) -> None:
    gate = section(html, "gate")
    bins = re.findall(
        r"<tr><td>auto_int8_w8a8</td><td class=\"n\">(\d)</td><td class=\"n\">(\d)</td></tr>", gate
    )
    assert bins == [("0", "4"), ("1", "4"), ("2", "4"), ("3", "4"), ("4", "4")]
    charts = re.findall(r"<svg.*?</svg>", gate, re.DOTALL)
    assert len(charts) == 2
    assert ">auto_int8_w8a8: 20 positions<" in charts[0]
    assert "<title>large gap of the policy</title>" in charts[0]
    assert "<title>stock_bf16_vs_float32</title>" in charts[1]


def test_decode_prints_the_median_of_the_repeats_and_their_range(report: dict[str, str], html: str) -> None:
    verdict = "dispatch_graph_bf16 has the highest median rate, 792.1 tokens/s, 3.20x the stock model's rate."
    assert f"- **In-model decode, Test GPU, tiny (seeded weights)**: {verdict}" in report["report.md"]
    shown = cells(section(html, "decode"), "dispatch_graph_bf16")
    assert shown[7:11] == ["792.1", "784.3", "800", "3.2"]  # 800 / 1.01, / 1.02
    assert ">dispatch_graph_bf16 (graph)<" in html


def test_an_engine_leads_only_over_equal_work(report: dict[str, str], html: str) -> None:
    verdict = "Output tokens a second: sglang 1.0 leads at 2 of 2 loads."
    assert f"Served engines, Test GPU, tiny (dummy weights), measured.</b> {verdict}" in html
    assert f"### Test GPU, tiny (dummy weights), measured\n\n{verdict}" in report["report.md"]
    served = section(html, "serving")
    (chart,) = re.findall(r"<svg.*?</svg>", served, re.DOTALL)
    assert "<title>vllm 1.0</title>" in chart
    assert "humming is no server" in served  # a refused run is listed beside
    assert served.count("<td>leads</td>") == 10  # five metrics at two loads


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("leads", "a")] * 2 + [("level", None)], "a leads at 2 of 3 loads, level at 1 of 3 loads."),
        ([("no comparison", None)], "no comparison at 1 of 1 loads."),
        ([("faster (point figures)", "a")], "a has the higher point figure at 1 of 1 loads."),
    ],
)
def test_the_verdict_of_served_engines_in_words(rows: list[tuple[str, str | None]], words: str) -> None:
    outcomes = [{"metric": "output_tokens_per_s", "outcome": o, "ahead": a} for o, a in rows]
    assert serving_verdict(outcomes) == f"Output tokens a second: {words}"
    assert serving_verdict([{"metric": "ttft_p50_ms"}]) == "Nothing is known of the throughput."


def test_a_long_table_says_how_much_it_leaves_out(report: dict[str, str], html: str) -> None:
    points = section(html, "points")
    assert "the first 200 of 400 rows; all of them: queries/points_cells.sql" in points
    assert "The first 200 of 400 figures" in report["report.md"]
    assert "rival-a" in points
    assert "a table.csv" in section(html, "provenance")
    assert "- Source table: a table.csv (csv), 800 rows of 800 records, 0 refused" in report["report.md"]
    assert len(html.encode()) < LARGEST


def test_ids_are_unique_over_all_charts(html: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert len(ids) > 10


def test_a_browser_opens_every_section_without_an_error_or_a_request(
    chromium: str, html: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(html, encoding="utf-8")
    assert console(chromium, page, tmp_path / "profile") == []


def test_what_ran_under_the_interpreter_says_so_at_its_verdict(tmp_path: Path) -> None:
    entrants = (
        Entrant("dispatch", "dispatch", 95.0),
        Entrant("example", "example", 100.0),
        control(time_us=95.0),
    )
    write_race(tmp_path / "lake", Race(entrants=entrants, cells=CELLS, device="cpu-interpreter"))
    write_gate(tmp_path / "lake", device="cpu-interpreter")
    documents = composed(tmp_path)
    said = "they say nothing about any GPU"
    verdict = documents["report.md"].partition("A win is a win over")[0]
    assert [said in line for line in verdict.splitlines() if line.startswith("- **")] == [True, True]
    assert section(documents["report.html"], "verdict").count(said) == 2


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["passed", "passed"], "All 2 candidates passed at 10 positions each."),
        (["passed", "failed"], "1 of 2 candidates passed at 10 positions each. config1 is failed."),
        (["missing"], "0 of 1 candidate passed. config0 is missing."),
        ([], "No candidate was compared."),
    ],
)
def test_the_gates_verdict_in_words(verdicts: list[str], words: str) -> None:
    control = {"config": "stock_vs_stock", "role": "control", "verdict": "passed", "positions": 10}
    candidates = [
        {"config": f"config{i}", "role": "candidate", "verdict": v, "positions": 10}
        for i, v in enumerate(verdicts)
    ]
    assert gate_verdict([control, *candidates]) == words


def test_decodes_verdict_names_what_was_not_timed() -> None:
    refused = {"config": "a", "status": "refused", "tokens_per_s": None, "speedup_vs_stock": None}
    timed = {"config": "b", "status": "timed", "tokens_per_s": 100.0, "speedup_vs_stock": None}
    assert decode_verdict([refused]) == "No configuration was timed."
    assert decode_verdict([timed, refused]) == "b has the highest median rate, 100 tokens/s. a is refused."
