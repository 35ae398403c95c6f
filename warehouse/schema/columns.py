"""Types of columns, what makes a cell, and what a table is."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXT = pa.string()
REAL = pa.float64()
INT = pa.int64()
FLAG = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
REALS = pa.list_(pa.float64())


@dataclass(frozen=True)
class Table:
    """A lake table: what it holds, its columns, the columns that identify a row, and which may not be NULL."""

    about: str
    columns: dict[str, pa.DataType]
    identity: tuple[str, ...]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, ``schema_version`` first; identity and required columns are not nullable."""
        never_null = {"schema_version", *self.identity, *self.required}
        fields = [pa.field("schema_version", pa.int32(), nullable=False)]
        fields += [pa.field(n, t, nullable=n not in never_null) for n, t in self.columns.items()]
        return pa.schema(fields)


# What makes a cell: the shape, the numbers' format, the routing and the size.
CELL = {
    "workload": TEXT,  # name of the MoE shape, e.g. deepseek-moe-16b
    "experts": INT,  # E
    "top_k": INT,
    "hidden": INT,  # H
    "intermediate": INT,  # I (w13 has 2 I rows an expert)
    "precision": TEXT,  # bf16, fp16, int8_w8a16, int8_w8a8
    "routing": TEXT,  # uniform, zipf (s = 1.0), zipf-S for another s, balanced, captured, dummy ...
    "tokens": INT,  # M
}
