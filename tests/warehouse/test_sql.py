"""Whether a table can have an identity twice, decided without looking at every pair."""

from __future__ import annotations

import duckdb
import pytest

from warehouse.sql import repeated_rows, unproven


@pytest.mark.parametrize(
    ("sessions", "asked_again"),
    [
        ([], False),
        ([0, 1, 2], False),
        ([0, 62], False),
        ([1, 1], True),
        ([0, 1, 2, 1], True),
        # Outside the 63 bits of an integer nothing is proven: the hashes are compared.
        ([63], True),
        ([-1], True),
        ([1, 64], True),
    ],
)
def test_the_numbers_of_a_group_prove_that_nothing_repeats(sessions: list[int], asked_again: bool) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE workers (run_id VARCHAR, contestant VARCHAR, session INTEGER)")
        for contestant in ("a", "b"):
            for session in sessions:
                con.execute("INSERT INTO workers VALUES ('run', ?, ?)", [contestant, session])

        assert con.execute(unproven("workers")).fetchall() == [(asked_again,)]
        repeats = 2 * (len(sessions) - len(set(sessions)))
        assert con.execute(repeated_rows("workers")).fetchall() == [(repeats,)]


def test_an_identity_of_text_is_always_compared() -> None:
    with duckdb.connect() as con:
        assert con.execute(unproven("policies")).fetchall() == [(True,)]
