"""Liger-Kernel's benchmark table: CSV in long format, one line a kernel, provider, mode, metric and point of a sweep.

Speed (ms) and memory (MB) lie in the same table and are two metrics. A line holds the median of its repetitions
and their 20th and 80th percentile. ``extra_benchmark_config_str`` is JSON with the whole shape, in which the
swept size is null: it stands in ``x_value``. So a point that two sweeps share is one cell with two figures.
The time of day has no zone, and Liger's version is that of its own provider alone.
"""

from __future__ import annotations

import json
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row
from warehouse.importers.facts import note_unused
from warehouse.importers.figures import cell_key, figure, precision, quantile
from warehouse.importers.pick import integer, number
from warehouse.importers.source import CSV, Source
from warehouse.importers.table import Record, each_record
from warehouse.importers.units import measure
from warehouse.importers.values import compact, shown

_REQUIRED = (
    "kernel_name", "kernel_provider", "kernel_operation_mode", "metric_name", "metric_unit", "x_name", "x_value",
    "y_value_50", "y_value_20", "y_value_80", "extra_benchmark_config_str", "gpu_name", "timestamp",
)  # fmt: skip
_VERSION = "liger_version"
_OWN = "liger"  # the provider whose version the table gives
_MOE = "fused_moe"
_SWEPT = "sweep_dim"


def detects(source: Source) -> bool:
    """Whether a file has the columns of Liger's table."""
    return source.kind == CSV and set(_REQUIRED) <= set(source.columns)


def parse(source: Source, given: Given) -> Parsed:
    """Return a point for each line.

    Raises:
        FormatError: a column is missing or stands twice.
    """
    parsed = Parsed()
    each_record(source, _REQUIRED, parsed, lambda record: _point(record, given))
    rows = parsed.rows.get("points", ())
    note_unused(parsed, given, ("device",) if any(row.row["device"] == given.device for row in rows) else ())
    return parsed


def _point(record: Record, given: Given) -> Row:
    provider, known = record["kernel_provider"], measure(record["metric_unit"])
    if not provider or not record["kernel_name"]:
        raise RecordError("it names no kernel or no provider")
    if known is None:
        raise RecordError(f"{shown(record['metric_unit'])} is no unit that is known")
    shape = _shape(record)
    benchmark = f"liger {record['kernel_name']} {record['kernel_operation_mode']}"
    is_moe = record["kernel_name"] == _MOE
    return {
        "contestant": provider,
        "house": provider,
        "version": record.get(_VERSION) or None if provider == _OWN else None,
        "experts": integer(shape.get("E")) if is_moe else None,
        "top_k": integer(shape.get("K")) if is_moe else None,
        "hidden": integer(shape.get("H")) if is_moe else None,
        "intermediate": integer(shape.get("intermediate_dim")) if is_moe else None,
        "precision": precision(shape.get("dtype")),
        "tokens": integer(shape.get("T")) if is_moe else None,
        "benchmark": benchmark,
        "cell_key": cell_key({"benchmark": benchmark, "measured": record["metric_name"], **shape}),
        "device": record["gpu_name"] or given.device,
        "conditions_json": compact({"timestamp": record["timestamp"], _VERSION: record.get(_VERSION)}),
        **figure(record["y_value_50"], known),
        "value_p20": quantile(record["y_value_20"], known),
        "value_p80": quantile(record["y_value_80"], known),
    }


def _shape(record: Record) -> dict[str, Any]:
    """The sizes of the point, the swept one among them, whichever of them was swept."""
    name, value = record["x_name"], number(record["x_value"])
    if not name or value is None:
        raise RecordError(f"x is {shown(record['x_value'])}, not a number with a name")
    try:
        shape = json.loads(record["extra_benchmark_config_str"] or "{}")
    except (ValueError, RecursionError):
        shape = None
    if not isinstance(shape, dict):
        raise RecordError("extra_benchmark_config_str is no JSON object")
    shape = {key: member for key, member in shape.items() if key != _SWEPT}
    if shape.get(name) is not None and number(shape[name]) != value:
        raise RecordError(f"{name} is {shown(shape[name])} in the shape and {value:g} as x")
    return {**shape, name: int(value) if value.is_integer() else value}


IMPORTER = Importer(
    name="liger",
    about="Liger-Kernel's benchmark table (CSV, long format)",
    detects=detects,
    parse=parse,
)
