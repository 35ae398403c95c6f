"""The analysis in SQL: macros and views that the build loads, and the queries that people run.

``macros/*.sql`` and ``views/NN_name.sql`` are executed in name order by :mod:`warehouse.build`; a view
file whose first line is ``-- materialise`` becomes a table of the same name. The ``*.sql`` files beside
this module are run by hand: ``duckdb -readonly warehouse.db < queries/winners.sql``.
"""

from __future__ import annotations

from importlib.resources import files


def statement(name: str) -> str:
    """Return the SQL of ``queries/NAME.sql`` for a connection, without what only the command reads.

    A line that begins with a dot tells the ``duckdb`` command how to print (all rows, not the first forty).

    Raises:
        FileNotFoundError: there is no such query.
    """
    text = (files(__name__) / f"{name}.sql").read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("."))
