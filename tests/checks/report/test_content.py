"""The verdict in words and the matrix: whoever wins is named by the count, gaps are shown as gaps."""

from __future__ import annotations

from typing import Any

import pytest

from checks.report.canvas import color_of, marker_of
from checks.report.content import matrix, square, subject, verdict


def row(outcome: str = "win", winner: str | None = "vllm", tokens: int = 1, **more: Any) -> dict[str, Any]:
    wins = outcome == "win"
    return {
        "precision": "bf16",
        "routing": "uniform",
        "tokens": tokens,
        "outcome": outcome,
        "winner": winner if wins else None,
        "house": winner if wins else None,
        "leader": winner,
        "margin": 1.234,
        "wins_over_all": wins,
        "tied": "sglang, vllm" if outcome == "tie" else None,
        "missing": "sglang (not-installed)" if outcome == "incomplete" else None,
        **more,
    }


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(), row()], "vllm wins all 2 cells."),
        ([row()], "vllm wins the only cell."),
        (
            [row(), row(), row(winner="dispatch")],
            "vllm wins most cells. Of 3 cells, vllm wins 2 and dispatch wins 1.",
        ),
        (
            [row(), row(winner="dispatch")],
            "Nobody wins most cells. Of 2 cells, dispatch wins 1 and vllm wins 1.",
        ),
        (
            [row(), row(), row("tie"), row("tie"), row("inconclusive"), row("incomplete")],
            "vllm wins more cells than any other. Of 6 cells, vllm wins 2, 2 are ties, 1 is inconclusive and "
            "1 is incomplete.",
        ),
        (
            [row("tie"), row("sole entrant")],
            "Nobody wins a cell. Of 2 cells, 1 is a tie and 1 has a sole entrant.",
        ),
        (
            [row(wins_over_all=False), row("tie")],
            "vllm wins more cells than any other. Of 2 cells, vllm wins 1 (1 with a required rival refused) and "
            "1 is a tie.",
        ),
    ],
)
def test_verdict(rows: list[dict[str, Any]], expected: str) -> None:
    assert verdict(rows) == expected


def test_the_matrix_shows_what_was_not_raced() -> None:
    made = matrix([row(tokens=4), row("tie", tokens=1, precision="int8_w8a8")])
    assert made.columns == [("bf16", "uniform"), ("int8_w8a8", "uniform")]
    assert [(tokens, [s.text for s in squares]) for tokens, squares in made.lines] == [
        (1, ["not raced", "tie: sglang, vllm"]),
        (4, ["vllm 1.23x", "not raced"]),
    ]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (row(wins_over_all=False), "vllm 1.23x *"),
        (row("incomplete"), "incomplete: no sglang (not-installed)"),
        (row("inconclusive"), "inconclusive"),
        (row("sole entrant"), "sole entrant"),
    ],
)
def test_every_outcome_is_readable_without_colour(made: dict[str, Any], text: str) -> None:
    assert square(made).text == text


def test_the_speedups_are_the_librarys_or_the_leaders() -> None:
    assert subject([row()], ["dispatch", "vllm"]) == "dispatch"
    assert subject([row(), row(winner="sglang"), row()], ["sglang", "vllm"]) == "vllm"


def test_no_two_of_sixteen_series_look_alike() -> None:
    looks = {(color_of(place), marker_of(place)) for place in range(16)}
    assert len(looks) == 16
