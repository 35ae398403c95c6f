"""The analysis in SQL: macros and views that the build loads, and the queries that people run.

``macros/*.sql`` and ``views/NN_name.sql`` are executed in name order by :mod:`warehouse.build`; a view
file whose first line is ``-- materialise`` becomes a table of the same name. The ``*.sql`` files beside
this module are run by hand: ``duckdb -readonly warehouse.db < queries/winners.sql``.
"""
