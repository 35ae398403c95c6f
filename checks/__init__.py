"""The gate: suites over the warehouse, claims in documents, and the report behind them."""
