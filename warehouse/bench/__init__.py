"""How fast the lake and the warehouse are, against the same winners computed in polars and in pandas.

    python -m warehouse.bench --rows 10000000

``synthetic`` writes a lake of races, ``frames_polars`` and ``frames_pandas`` compute its winners from the
Parquet files by the rules of ``queries/views``, ``stages`` runs each step in a process of its own.
"""
