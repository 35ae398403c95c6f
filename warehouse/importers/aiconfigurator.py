"""aiconfigurator's MoE tables: Parquet, one row the latency of one engine's fused MoE in one cell, in ms.

A row has no repetition, clock or date. Spellings of the engines differ between files (VLLM, SGLang, TRTLLM),
as do the types of text columns; one file has thousands of cells twice, which stay as repetitions. A version
belongs to its contestant: two of them are never one figure.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.importers.base import FormatError, Given, Importer, Parsed, RecordError, Row
from warehouse.importers.facts import note_unused
from warehouse.importers.figures import cell_key, engine, figure, precision
from warehouse.importers.source import PARQUET, Source
from warehouse.importers.units import Measure
from warehouse.importers.values import compact, count, shown, text

# What two rows must share to be of one cell. `kernel_source` is how an engine solved it, not what was asked.
_SIZES = (
    "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
)  # fmt: skip
_NAMES = ("op_name", "moe_dtype", "distribution")
_REQUIRED = ("framework", "version", "device", "kernel_source", *_SIZES, *_NAMES, "latency")
_LATENCY = Measure("time_us", 1e3, lower_is_better=True)


def detects(source: Source) -> bool:
    """Whether a file has the columns of such a table."""
    return source.kind == PARQUET and set(_REQUIRED) <= set(source.columns)


def parse(source: Source, given: Given) -> Parsed:
    """Return a point for each row.

    Raises:
        FormatError: the file is no Parquet, is damaged, or lacks a column.
    """
    parsed = Parsed()
    missing = [name for name in _REQUIRED if name not in source.columns]
    if source.kind != PARQUET or missing:
        raise FormatError(f"this is no MoE table of aiconfigurator: it lacks {', '.join(missing)}.")
    try:
        records = pq.read_table(source.path).to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise FormatError(f"the Parquet file cannot be read: {' '.join(str(error).split())[:200]}.") from None
    parsed.expect(len(records))
    for index, record in enumerate(records):
        try:
            parsed.add("points", _point(record, given), f"row {index}")
        except RecordError as error:
            parsed.refuse(f"row {index}", str(error))
    note_unused(parsed, given, () if all(text(record["device"]) for record in records) else ("device",))
    return parsed


def _point(record: dict[str, Any], given: Given) -> Row:
    sizes = {name: count(record[name]) for name in _SIZES}
    names = {name: text(record[name]) for name in ("framework", *_NAMES)}
    missing = [name for name, value in {**names, **sizes}.items() if value is None]
    if missing:
        raise RecordError(f"{missing[0]} is {shown(record[missing[0]])}")
    contestant = engine(str(names.pop("framework")))
    return {
        "contestant": contestant,
        "house": contestant,
        "version": text(record["version"]),
        "experts": sizes["num_experts"],
        "top_k": sizes["topk"],
        "hidden": sizes["hidden_size"],
        "intermediate": sizes["inter_size"],
        "precision": precision(names["moe_dtype"]),
        "routing": names["distribution"],
        "tokens": sizes["num_tokens"],
        "benchmark": f"aiconfigurator {names['op_name']}",
        "cell_key": cell_key({**names, **sizes}),
        "device": text(record["device"]) or given.device,
        "conditions_json": compact({"kernel_source": text(record["kernel_source"])}),
        **figure(record["latency"], _LATENCY),
    }


IMPORTER = Importer(
    name="aiconfigurator",
    about="aiconfigurator's measured MoE latencies (Parquet)",
    detects=detects,
    parse=parse,
)
