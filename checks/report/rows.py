"""Rows of a query as plain dictionaries."""

from __future__ import annotations

from typing import Any

import duckdb

Row = dict[str, Any]


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """Return the rows of ``query`` as dictionaries."""
    cursor = con.execute(query)
    names = [d[0] for d in cursor.description or ()]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
