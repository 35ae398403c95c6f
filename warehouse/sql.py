"""SQL texts made from the declared schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from warehouse.schema import TABLES

# Columns that two honest records of one identity may differ in: when and how it was written down.
# The first record in their order is the one that is kept (the earliest registration of a policy).
RECORDING: dict[str, tuple[str, ...]] = {
    "policies": ("registered_at",),
    "imports": ("recorded_at", "source", "records_in", "rows_out", "refused", "refusals_json", "note"),
}

_BITS = 63  # of a BIGINT without its sign


@dataclass(frozen=True)
class Packing:
    """How a table of many rows is stored: rows that differ in ``varying`` alone are one row with a list.

    The table of the lake's name is a view that takes the lists apart again. Long texts are written once for
    a list instead of once for a row, which is most of what a build costs.
    """

    stored: str  # the table that holds the lists
    packed: str  # its column of lists of structs
    varying: tuple[str, ...]  # the fields of a struct


PACKINGS = {"samples": Packing("sample_rounds", "timings", ("sample", "time_us"))}


def duckdb_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type of the schema."""
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    names = {
        pa.string(): "VARCHAR",
        pa.float64(): "DOUBLE",
        pa.int64(): "BIGINT",
        pa.int32(): "INTEGER",
        pa.bool_(): "BOOLEAN",
        pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    }
    return names[kind]


def columns_of(table: str) -> list[tuple[str, str]]:
    """Return (name, DuckDB type) of every column of ``table``, in order."""
    return [(field.name, duckdb_type(field.type)) for field in TABLES[table].schema]


def quoted(names: Iterable[str]) -> str:
    """Return column names, quoted and joined by commas."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    """Return ``text`` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def create(table: str, select: str) -> str:
    """Return the statements that make ``table`` of the rows of ``select``, in place of what it was."""
    packing = PACKINGS.get(table)
    if packing is None:
        return f"CREATE OR REPLACE TABLE {table} AS {select}"
    names = TABLES[table].schema.names
    equal = quoted(name for name in names if name not in packing.varying)
    fields = ", ".join(f"{quoted([name])} := {quoted([name])}" for name in packing.varying)
    columns = ", ".join(
        f"timing.{quoted([name])} AS {quoted([name])}" if name in packing.varying else quoted([name])
        for name in names
    )
    return (
        f"CREATE OR REPLACE TABLE {packing.stored} AS "
        f"SELECT {equal}, list(struct_pack({fields})) AS {packing.packed} FROM ({select}) GROUP BY {equal}; "
        f"CREATE OR REPLACE VIEW {table} AS SELECT {columns} FROM "
        f"(SELECT {equal}, unnest({packing.packed}) AS timing FROM {packing.stored})"
    )


def value_columns(table: str) -> list[str]:
    """Return the columns in which two rows of one identity must agree."""
    apart = {"schema_version", *TABLES[table].identity, *RECORDING.get(table, ())}
    return [name for name in TABLES[table].schema.names if name not in apart]


def unfit_counts(table: str) -> dict[str, str]:
    """Return, for everything that the contract forbids of a value, a sentence and the SQL that counts it."""
    counts = {}
    for field in TABLES[table].schema:
        name = quoted([field.name])
        if not field.nullable:
            counts[f"column '{field.name}' has NULL and must have a value"] = f"count(*) - count({name})"
        if pa.types.is_floating(field.type):
            counts[f"column '{field.name}' has NaN or infinity"] = (
                f"count(*) FILTER (WHERE NOT isfinite({name}))"
            )
        elif pa.types.is_list(field.type):
            counts[f"column '{field.name}' has NaN or infinity in a list"] = (
                f"count(*) FILTER (WHERE list_bool_or(list_transform({name}, lambda x: NOT isfinite(x))))"
            )
    return counts


def unproven(table: str) -> str:
    """Return the query that is TRUE unless ``table`` surely has no identity twice.

    Where the identity ends in a small whole number (the sample of a round), the numbers of each group are
    the bits of one integer: as many bits as rows means no repeat. Four times cheaper than to hash each row.
    In a packed table a list is such a group, if no other list has the rest of its identity.
    """
    *group, last = TABLES[table].identity
    packing = PACKINGS.get(table)
    if packing is not None:
        number = f"timing.{quoted([last])}"
        bits = f"list_transform({packing.packed}, lambda timing: 1::BIGINT << (abs({number}) % {_BITS}))"
        numbers = f"list_transform({packing.packed}, lambda timing: {number})"
        return (
            f"SELECT count(*) <> count(DISTINCT hash({quoted(group)})) OR coalesce(bool_or("
            f"len({packing.packed}) <> bit_count(list_bit_or({bits})) "
            f"OR list_min({numbers}) < 0 OR list_max({numbers}) >= {_BITS}), FALSE) FROM {packing.stored}"
        )
    if not group or not pa.types.is_integer(TABLES[table].schema.field(last).type):
        return "SELECT TRUE"
    bit = f"1::BIGINT << (abs({quoted([last])}) % {_BITS})"
    return (
        f"SELECT coalesce(bool_or(n <> bits OR least < 0 OR most >= {_BITS}), FALSE) FROM ("
        f"SELECT count(*) AS n, bit_count(bit_or({bit})) AS bits, "
        f"min({quoted([last])}) AS least, max({quoted([last])}) AS most "
        f"FROM {table} GROUP BY {quoted(group)})"
    )


def repeated_rows(table: str) -> str:
    """Return the query of how many rows have the hash of another row's identity: 0 means no repeat."""
    return f"SELECT count(*) - count(DISTINCT hash({quoted(TABLES[table].identity)})) FROM {table}"


def _repeats(table: str) -> str:
    """Rows of ``table`` whose identity's hash occurs more than once: few, where a lake is as it should be."""
    key = f"hash({quoted(TABLES[table].identity)})"
    return f"SELECT * FROM {table} WHERE {key} IN (SELECT {key} FROM {table} GROUP BY 1 HAVING count(*) > 1)"


def differing(table: str) -> str:
    """Return the query of identities that stand in ``table`` with more than one value, in order."""
    names = quoted(TABLES[table].identity)
    values = value_columns(table)
    packed = ", ".join(f"{quoted([name])} := {quoted([name])}" for name in values)
    several = f"count(DISTINCT struct_pack({packed})) > 1" if values else "FALSE"
    return f"SELECT {names} FROM ({_repeats(table)}) GROUP BY {names} HAVING {several} ORDER BY {names}"


def kept_first(table: str) -> str:
    """Return the statement that leaves one row of each identity: the first in the order of all columns."""
    names = quoted(TABLES[table].identity)
    rest = quoted([*RECORDING.get(table, ()), *value_columns(table)]) or names
    key = f"hash({names})"
    return create(
        table,
        f"SELECT * FROM ({_repeats(table)}) "
        f"QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY {rest}) = 1 "
        f"UNION ALL SELECT * FROM {table} WHERE {key} IN "
        f"(SELECT {key} FROM {table} GROUP BY 1 HAVING count(*) = 1)",
    )
