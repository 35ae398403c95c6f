"""The lake (append-only Parquet) and the warehouse that is built from it."""
