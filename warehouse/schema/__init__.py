"""The lake's contract: one declared Arrow schema per table.

Every producer writes through :mod:`warehouse.append`, which casts to these schemas; a column that
is not declared here is an error that names it. Units stand in the column names (``_us``, ``_ms``,
``_s``, ``_bytes``, ``_mhz``, ``_w``, ``_c``). A value that is unknown is NULL; NaN and infinity never
enter. What each table holds, and which columns identify a row of it, is in :data:`TABLES`.
"""

from __future__ import annotations

import pyarrow as pa

from warehouse.schema import imported, models, race, runs, serving
from warehouse.schema.columns import Table

__all__ = ["SCHEMA_VERSION", "TABLES", "Table", "schema_of"]

SCHEMA_VERSION = 1

TABLES: dict[str, Table] = {
    **runs.TABLES,
    **race.TABLES,
    **imported.TABLES,
    **models.TABLES,
    **serving.TABLES,
}


def schema_of(table: str) -> pa.Schema:
    """The Arrow schema of ``table``.

    Raises:
        KeyError: ``table`` is no table of the lake.
    """
    return TABLES[table].schema
