"""Which entry of a tuned table a number of tokens gets, as the loaders resolve it."""

from __future__ import annotations

from tests.queries.conftest import Database, MakeDatabase
from warehouse.append import append


def ranges(make_db: MakeDatabase, keys: list[int]) -> dict[int, tuple[int, int | None, int | None]]:
    """Return tokens_from, tokens_to and tie_at of each key of a table that lists them in this order."""
    rows = [
        {
            "import_id": "table",
            "row": row,
            "source": "E=8,N=16,device_name=X.json",
            "experts": 8,
            "n": 16,
            "device": "X",
            "tokens": key,
            "config_json": "{}",
        }
        for row, key in enumerate(keys)
    ]
    db: Database = make_db(then=lambda lake: append(lake, "tuned_configs", rows))
    return {
        row["tokens"]: (row["tokens_from"], row["tokens_to"], row["tie_at"])
        for row in db.rows("FROM tuned_ranges")
    }


def nearest(keys: list[int], tokens: int) -> int:
    """vLLM's and SGLang's lookup."""
    return min(keys, key=lambda key: abs(key - tokens))


def test_a_tie_goes_to_the_key_that_stands_first(make_db: MakeDatabase) -> None:
    assert ranges(make_db, [1, 2, 4, 9]) == {
        1: (1, 1, None),
        2: (2, 3, None),
        4: (4, 6, 3),
        9: (7, None, None),
    }
    assert ranges(make_db, [9, 4, 2, 1])[4] == (3, 6, 3)


def test_every_number_of_tokens_is_in_the_range_of_the_key_that_the_loaders_take(
    make_db: MakeDatabase,
) -> None:
    keys = [64, 3, 12, 24, 1, 96, 128]  # neither sorted nor powers of two
    found = ranges(make_db, keys)
    for tokens in range(1, 200):
        inside = [key for key, (first, last, _) in found.items() if first <= tokens <= (last or tokens)]
        assert inside == [nearest(keys, tokens)], tokens
