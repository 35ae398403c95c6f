"""Rows become an Arrow table of the declared schema, or an error that names the column.

A cast never changes a value: 1.5 does not become the integer 1, text does not become a number, a naive
time does not become UTC. NaN and infinity are refused; the value that is unknown is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.errors import SchemaError
from warehouse.schema import SCHEMA_VERSION, TABLES

Rows = Sequence[Mapping[str, Any]]

_CHOICES_SHOWN = 6


def cast(table: str, rows: Rows | pa.Table) -> pa.Table:
    """Return ``rows`` as a table with exactly the schema of ``table``.

    Columns that are left out become NULL; ``schema_version`` is filled in.

    Raises:
        SchemaError: the table is unknown, a column is not declared or has the wrong type, a value would
            change by the cast, is NaN or infinite, or a required one is missing.
    """
    if table not in TABLES:
        raise SchemaError(f"'{table}' is no table of the lake; the tables are {', '.join(TABLES)}.")
    schema = TABLES[table].schema
    source = rows if isinstance(rows, pa.Table) else _infer(table, rows)
    if not source.schema.equals(schema):
        source = _conform(table, source, schema)
    _check_values(table, source)
    return source.replace_schema_metadata({"table": table, "schema_version": str(SCHEMA_VERSION)})


def same_kind(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a value of type ``found`` may be cast to ``declared`` at all (the cast itself is checked)."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return same_kind(found.value_type, declared)
    if _is_list(declared):
        return _is_list(found) and same_kind(found.value_type, declared.value_type)
    if pa.types.is_timestamp(declared):
        return pa.types.is_timestamp(found) and found.tz is not None
    return any(kind(found) and kind(declared) for kind in _KINDS)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_KINDS: tuple[Callable[[pa.DataType], bool], ...] = (_is_text, _is_number, pa.types.is_boolean)


def _infer(table: str, rows: Rows) -> pa.Table:
    """Give the rows the types that their values have; the declared ones are for :func:`_conform`."""
    names = dict.fromkeys(name for row in rows for name in row)
    _refuse_unknown(table, names)
    if rows and not names:
        raise SchemaError(f"{table}: {len(rows)} rows without any column; give the columns of its identity.")
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        _refuse_ambiguous(table, TABLES[table].schema.field(name), values)
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            declared = TABLES[table].schema.field(name).type
            raise SchemaError(
                f"{table}.{name}: the values have no common type ({_line(error)}); give {declared} or None."
            ) from None
    return pa.table(columns) if columns else TABLES[table].schema.empty_table().slice(0, 0)


def _refuse_ambiguous(table: str, field: pa.Field, values: Sequence[Any]) -> None:
    """Refuse what Arrow would take for something else when it stands among other values of a column.

    The zone of the first time would hold for all; a truth value among reals would become 0.0 or 1.0.
    """
    kind = field.type.value_type if _is_list(field.type) else field.type
    flat = [v for value in values for v in (value if isinstance(value, list | tuple) else (value,))]
    if any(isinstance(v, datetime) and v.tzinfo is None for v in flat):
        raise SchemaError(f"{table}.{field.name}: a time without a zone; give one with tzinfo, such as UTC.")
    if not pa.types.is_boolean(kind) and any(isinstance(v, bool) for v in flat):
        raise SchemaError(f"{table}.{field.name}: a truth value given, {field.type} declared.")


def _conform(table: str, source: pa.Table, schema: pa.Schema) -> pa.Table:
    _refuse_unknown(table, source.column_names)
    twice = [name for name in source.column_names if source.column_names.count(name) > 1]
    if twice:
        raise SchemaError(f"{table}.{twice[0]}: the column stands twice; give it once.")
    columns = []
    for field in schema:
        if field.name in source.column_names:
            columns.append(_column(table, field, source[field.name]))
        elif field.name == "schema_version":
            columns.append(pa.array([SCHEMA_VERSION] * source.num_rows, type=field.type))
        else:
            columns.append(pa.nulls(source.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _column(table: str, field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not same_kind(column.type, field.type):
        hint = " (a time needs its zone)" if pa.types.is_timestamp(field.type) else ""
        raise SchemaError(f"{table}.{field.name}: {column.type} given, {field.type} declared{hint}.")
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"{table}.{field.name}: a value would change as {field.type} ({_line(error)}); "
            "give the declared type or None."
        ) from None


def _check_values(table: str, source: pa.Table) -> None:
    for field in source.schema:
        column = source[field.name]
        if not field.nullable and column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise SchemaError(f"{table}.{field.name}: row {row} has no value, and the column needs one.")
        values = column
        if pa.types.is_list(field.type):
            values = pc.list_flatten(column)
        if pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py() is False:
            row = pc.index(pc.is_finite(values), False).as_py()
            place = "an element" if values is not column else f"row {row}"
            raise SchemaError(
                f"{table}.{field.name}: {place} is {values[row].as_py()}; "
                "an unknown value is None (NULL), with its reason in another column."
            )
    versions = pc.unique(source["schema_version"]).to_pylist()
    if versions and versions != [SCHEMA_VERSION]:
        raise SchemaError(
            f"{table}.schema_version: {versions[0]} given and {SCHEMA_VERSION} written here; leave it out."
        )


def _refuse_unknown(table: str, names: Sequence[str] | Mapping[str, None]) -> None:
    declared = TABLES[table].columns
    unknown = [name for name in names if name not in declared and name != "schema_version"]
    if unknown:
        known = ", ".join(list(declared)[:_CHOICES_SHOWN])
        raise SchemaError(
            f"{table}.{unknown[0]}: the column is not declared in warehouse/schema; "
            f"{table} has {known}{' and more' if len(declared) > _CHOICES_SHOWN else ''}."
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
