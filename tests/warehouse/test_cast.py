from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.warehouse.rows import sample
from warehouse.cast import cast
from warehouse.errors import SchemaError
from warehouse.schema import SCHEMA_VERSION, TABLES, schema_of

COST = {"cost_id": "a", "basis": "rate"}
IMPORT = {"import_id": "a", "recorded_at": datetime(2026, 1, 1, tzinfo=UTC), "format": "f", "source": "s"}
POSITION = {"run_id": "r", "config": "c", "position": 0, "agree": True}


@pytest.mark.parametrize("table", TABLES)
def test_every_table_takes_the_empty_table_of_its_own_schema(table: str) -> None:
    assert cast(table, schema_of(table).empty_table()).schema.equals(schema_of(table))


@pytest.mark.parametrize("table", TABLES)
def test_identity_and_required_columns_are_declared(table: str) -> None:
    contract = TABLES[table]
    assert {*contract.identity, *contract.required} <= set(contract.columns)


def test_columns_left_out_are_null_and_the_version_is_filled_in() -> None:
    row = cast("costs", [COST]).to_pylist()[0]
    assert (row["schema_version"], row["cost_id"], row["amount_usd"]) == (SCHEMA_VERSION, "a", None)


@pytest.mark.parametrize(
    ("table", "rows", "says"),
    [
        ("nope", [COST], "'nope' is no table"),
        ("costs", [{**COST, "amount": 1.0}], "costs.amount: the column is not declared"),
        ("costs", [{}], "costs: 1 rows without any column"),
        ("costs", [COST, {"cost_id": "b"}], "costs.basis: row 1 has no value"),
        ("costs", [{"basis": "rate"}], "costs.cost_id: row 0 has no value"),
        ("costs", [{**COST, "amount_usd": float("nan")}], "costs.amount_usd: row 0 is nan"),
        ("costs", [COST, {**COST, "amount_usd": float("-inf")}], "costs.amount_usd: row 1 is -inf"),
        ("costs", [{**COST, "amount_usd": "1"}], "costs.amount_usd: string given, double declared"),
        ("costs", [{**COST, "amount_usd": 2**53 + 1}], "costs.amount_usd: a value would change"),
        ("costs", [{**COST, "recorded_at": "2026-01-01"}], "costs.recorded_at: string given"),
        ("imports", [{**IMPORT, "records_in": 1.5}], "imports.records_in: a value would change as int64"),
        ("imports", [{**IMPORT, "records_in": True}], "imports.records_in: a truth value given"),
        ("imports", [{**IMPORT, "records_in": 2**70}], "imports.records_in: the values have no common type"),
        ("imports", [{**IMPORT, "note": 1}, {**IMPORT, "note": "1"}], "imports.note: the values have no common"),
        ("imports", [{**IMPORT, "note": "\ud800"}], "imports.note: "),
        ("imports", [IMPORT, {**IMPORT, "recorded_at": datetime(2026, 1, 1)}], "a time without a zone"),
        ("gate_positions", [{**POSITION, "layer_drift": [1.0, float("inf")]}], "layer_drift: an element is inf"),
        ("gate_positions", [{**POSITION, "layer_drift": [1.0, True]}], "layer_drift: a truth value given"),
        ("costs", [{**COST, "amount_usd": 0.0}, {**COST, "amount_usd": False}], "a truth value given"),
        ("gate_positions", [{**POSITION, "agree": 1}], "gate_positions.agree: int64 given, bool declared"),
        ("costs", [{**COST, "schema_version": 99}], "costs.schema_version: 99 given"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused_in_a_sentence_that_names_the_column(
    table: str, rows: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(SchemaError) as refused:
        cast(table, rows)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_arrow_table_is_held_to_the_same_contract() -> None:
    good = pa.Table.from_pylist([sample(0)])
    assert cast("samples", good).schema.equals(schema_of("samples"))
    with pytest.raises(SchemaError, match=r"samples\.extra: the column is not declared"):
        cast("samples", good.append_column("extra", pa.array([1])))
    with pytest.raises(SchemaError, match=r"samples\.time_us: the column stands twice"):
        cast("samples", good.append_column("time_us", pa.array([1.0])))
    already = cast("samples", good)
    broken = already.set_column(
        already.schema.get_field_index("time_us"), already.schema.field("time_us"), pa.array([float("nan")])
    )
    with pytest.raises(SchemaError, match=r"samples\.time_us: row 0 is nan"):
        cast("samples", broken)


def test_dictionary_encoded_text_is_text() -> None:
    rows = pa.Table.from_pylist([sample(0)])
    at = rows.schema.get_field_index("contestant")
    encoded = rows.set_column(at, "contestant", rows["contestant"].dictionary_encode())
    assert cast("samples", encoded)["contestant"].type == pa.string()


def test_integers_and_reals_of_one_column_keep_their_values() -> None:
    values = [1, 2, 1.5, 2.25, None]
    cast_values = cast("costs", [{**COST, "amount_usd": v} for v in values])["amount_usd"]
    assert (cast_values.type, cast_values.to_pylist()) == (pa.float64(), values)


numbers = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.booleans())


@given(st.lists(numbers, min_size=1, max_size=5))
def test_a_value_enters_unchanged_or_not_at_all(values: list[object]) -> None:
    try:
        table = cast("costs", [{**COST, "amount_usd": value} for value in values])
    except SchemaError:
        return
    assert table["amount_usd"].to_pylist() == values
    assert not any(isinstance(value, str | bool) for value in values)
