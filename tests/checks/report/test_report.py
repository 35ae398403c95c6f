"""The report of a real warehouse: complete, self-contained, safe, and quiet in a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from checks import gate
from checks.model import Status
from checks.report import write
from checks.session import Session
from tests.checks.conftest import CELLS, ENTRANTS, build_race
from tests.checks.report.browser import console
from tests.lakes import Entrant, Race, Refusal, write_ceilings
from warehouse.build import build

LARGEST = 3_000_000  # bytes
HOSTILE = "rival|<script>alert(1)</script>"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a race with a winner, a refused rival and a contestant of a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    race = Race(
        entrants=(*ENTRANTS, Entrant(HOSTILE, "other", 150.0, role="informational")),
        cells=CELLS,
        modes=("graph", "eager"),
        refusals=(Refusal("sglang", "nan-output", "contestant", cell_id=CELLS[1]),),
    )
    build_race(folder, race)
    write_ceilings(folder / "lake", run=race.run_id)
    build([folder / "lake"], folder / "warehouse.db")
    with Session(folder / "warehouse.db", [folder / "lake"], None, folder) as session:
        result = session.gate(())
        assert result.exit_code == 0, [f.line for r in result.errors for f in r.findings]
        write(session, result, folder / "reports")
    return folder / "reports"


@pytest.fixture(scope="module")
def html(reports: Path) -> str:
    return (reports / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def markdown(reports: Path) -> str:
    return (reports / "report.md").read_text(encoding="utf-8")


def test_the_verdict_stands_first(markdown: str) -> None:
    assert markdown.splitlines()[:5] == [
        "# Race report",
        "",
        "## Verdict",
        "",
        "- **Test GPU, deepseek-moe-16b, graph**: dispatch wins all 2 cells, 1 of them with a required rival refused.",
    ]


def test_both_documents_hold_the_matrix_the_refusal_and_the_provenance(markdown: str, html: str) -> None:
    for document in (markdown, html):
        assert "dispatch 1.05x" in document
        assert "nan-output" in document
        assert "20260101T000000Z-00000000" in document
        assert "floor" in document
    assert "| 128 | dispatch 1.05x | not raced |" in markdown


def test_sections_without_rows_are_left_out(markdown: str, html: str) -> None:
    for title in ("Served engines", "In-model decode", "Correctness gate", "Costs"):
        assert title not in markdown
        assert f"<h2>{title}</h2>" not in html


def test_markdown_tables_have_as_many_fields_as_their_head(markdown: str) -> None:
    fields = 0
    for line in markdown.splitlines():
        count = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert count in (0, fields) or fields == 0, line
        fields = count
    assert "<script>" not in markdown


class Outside(HTMLParser):
    """Collects what would load something, and every id."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if name in {"src", "href", "xlink:href"} and not (value or "").startswith(("#", "data:")):
                self.loads.append(f"{tag} {value}")
            if name == "id":
                self.ids.append(value or "")


def test_html_is_self_contained(html: str) -> None:
    outside = Outside()
    outside.feed(html)
    assert outside.loads == []
    assert outside.scripts == 0
    assert "url(http" not in html
    assert "@import" not in html
    assert len(html.encode()) < LARGEST


def test_ids_are_unique(html: str) -> None:
    outside = Outside()
    outside.feed(html)
    assert len(outside.ids) == len(set(outside.ids))


def test_names_are_escaped(html: str) -> None:
    assert "<script>" not in html
    assert "rival|&lt;script&gt;" in html


def test_charts_follow_the_page_and_name_their_series(html: str) -> None:
    charts = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(charts) == 6  # times, speedups and spread, in two modes
    for chart in charts:
        assert "#a1b2" not in chart  # a placeholder that no variable replaced
        assert "var(--series-" in chart
    assert "<title>vllm</title>" in charts[0]
    assert "<title>floor</title>" in charts[0]


def test_the_receipt_vouches_for_the_report(reports: Path) -> None:
    receipt = json.loads((reports / "receipt.json").read_text())
    assert sorted(receipt["reports"]) == ["report.html", "report.md"]
    assert receipt["counts"]["false"] == 0
    assert receipt["counts"]["warnings"] == 1


def test_nothing_is_written_behind_a_closed_gate(good: Path, tmp_path: Path) -> None:
    with Session(good / "warehouse.db", None, None, tmp_path) as session:
        closed = gate.GateResult((), ())
        assert closed.status is Status.UNJUDGED
        with pytest.raises(ValueError, match="passing gate"):
            write(session, closed, tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


def test_a_browser_opens_it_without_an_error_or_a_request(
    chromium: str, reports: Path, tmp_path: Path
) -> None:
    """The page's own content policy forbids every load, so that an attempt would stand in the console."""
    assert "default-src 'none'" in (reports / "report.html").read_text()
    assert console(chromium, reports / "report.html", tmp_path / "profile") == []


def test_the_console_would_show_a_request(chromium: str, html: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html.replace("<main>", '<main><img src="http://127.0.0.1:9/pixel.png" alt="">'))
    assert any("pixel.png" in line for line in console(chromium, page, tmp_path / "profile"))
