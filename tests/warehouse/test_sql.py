"""Whether a table can have an identity twice, decided without looking at every pair."""

from __future__ import annotations

import duckdb
import pytest

from tests.warehouse.rows import sample
from warehouse.cast import cast
from warehouse.sql import create, repeated_rows, unproven


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


@pytest.mark.parametrize(
    ("rows", "asked_again", "repeats"),
    [
        ([(0, 0), (0, 1), (1, 0)], False, 0),
        ([(0, 0), (0, 1), (0, 0)], True, 1),
        # Two lists of one round: they may share a number or not, and are compared row by row.
        ([(0, 0), (0, 1, 7)], True, 0),
        ([(0, 0), (0, 0, 7)], True, 1),
        ([(0, 63)], True, 0),
        ([(0, -1)], True, 0),
    ],
)
def test_a_packed_table_gives_its_rows_back_and_proves_what_it_can(
    rows: list[tuple[int, ...]], asked_again: bool, repeats: int
) -> None:
    samples = cast("samples", [sample(n, round=r, session=(s or [0])[0]) for r, n, *s in rows])
    with duckdb.connect() as con:
        con.register("given", samples)
        con.execute(create("samples", "SELECT * FROM given"))

        assert con.sql("SELECT * FROM samples").columns == samples.column_names
        assert con.execute("SELECT * FROM samples ORDER BY ALL").fetchall() == (
            con.execute("SELECT * FROM given ORDER BY ALL").fetchall()
        )
        lists = con.execute("SELECT count(*) FROM sample_rounds").fetchall()
        assert lists == [(len({(r, *s) for r, _, *s in rows}),)]
        assert con.execute(unproven("samples")).fetchall() == [(asked_again,)]
        assert con.execute(repeated_rows("samples")).fetchall() == [(repeats,)]
