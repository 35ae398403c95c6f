"""The table at the end of a race."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from producers.summary import print_winners

RUN = "20260101T000000Z-00000000"
LONG = "a-contestant-of-a-very-long-name-indeed"


def row(**changed):
    return {
        "cell_id": "deepseek-moe-16b/int8_w8a16/uniform/2048",
        "workload": "deepseek-moe-16b",
        "timing_mode": "graph",
        "outcome": "win",
        "winner": LONG,
        "margin": 1.234,
        "margin_lo": 1.2,
        "margin_hi": 1.3,
        "reason": None,
        "run_id": RUN,
        "device": "NVIDIA H200",
        **changed,
    }


def printed(*rows, width=40):
    out = io.StringIO()
    print_winners(list(rows), RUN, Console(file=out, width=width))
    return out.getvalue()


def test_a_narrow_terminal_cuts_no_word():
    lines = printed(row()).splitlines()

    assert lines[0] == "deepseek-moe-16b:"
    assert lines[2].split() == [
        "int8_w8a16/uniform/2048",
        "graph",
        LONG,
        "wins",
        "1.234",
        "[1.200,",
        "1.300]",
    ]


def test_reasons_stand_below_with_the_number_of_their_cells():
    undecided = {"outcome": "inconclusive", "winner": None, "reason": "the noise decides nothing"}
    out = printed(row(), row(**undecided), row(**undecided), row(run_id="earlier"))

    assert "2 cells: the noise decides nothing" in out
    assert "1 cell: run earlier speaks here" in out
    assert "GPU" not in out


def test_several_workloads_stand_in_the_cells():
    out = printed(row(), row(cell_id="mixtral/bf16/zipf/1", workload="mixtral"))

    assert "\ndeepseek-moe-16b/int8_w8a16/uniform/2048" in out
    assert "\nmixtral/bf16/zipf/1" in out


@pytest.mark.parametrize("width", [30, 200])
def test_a_race_of_the_interpreter_says_on_the_spot_what_it_is_not(width):
    assert "they say nothing about any GPU" in printed(row(device="cpu-interpreter"), width=width)
