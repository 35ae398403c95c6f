"""Two hundred simulated races: what noise, drift and a bias of every process do to the outcome.

Identical implementations must never bring forth a winner; one that is truly 5 % faster must
nearly always win.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lakes import Entrant, Race, run_id, trio
from tests.queries.conftest import MakeDatabase

RACES = 200


def outcomes(make_db: MakeDatabase, entrants: tuple[Entrant, ...], bias: float = 0.01) -> Counter[str]:
    """Outcomes of the runs, each judged alone: 0.5 % noise, 1 % drift, 12 rounds over 6 sessions."""
    races = (
        Race(
            entrants=entrants,
            run_id=run_id(seed),
            seed=seed,
            rounds=12,
            sessions=6,
            noise=0.005,
            drift=0.01,
            process_bias=bias,
        )
        for seed in range(RACES)
    )
    rows = make_db(*races).rows("SELECT outcome, winner FROM run_outcomes")
    assert len(rows) == RACES
    return Counter(row["winner"] or row["outcome"] for row in rows)


def test_identical_implementations_have_no_winner(make_db: MakeDatabase) -> None:
    counts = outcomes(make_db, trio())
    assert set(counts) <= {"tie", "inconclusive"}


def test_five_percent_faster_nearly_always_wins(make_db: MakeDatabase) -> None:
    counts = outcomes(make_db, trio(dispatch=100 / 1.05))
    assert counts["dispatch"] >= 0.95 * RACES
    assert not counts.keys() & {"vllm", "sglang"}


@pytest.mark.parametrize("slower", ["vllm", "sglang"])
def test_five_percent_over_one_rival_only_is_no_win(make_db: MakeDatabase, slower: str) -> None:
    counts = outcomes(make_db, trio(**{slower: 105.0}))
    assert set(counts) <= {"tie", "inconclusive"}
