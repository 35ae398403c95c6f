"""Tables with one figure a line: CSV with the columns cell, contestant (or framework), value, unit and metric.

The unit may also stand in the name of the value's column (``latency_ms``, ``throughput_tflops``). A figure without
a unit that is known is refused. Columns with other names are part of the cell: they say what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warehouse.importers.base import FormatError, Given, Importer, Parsed, RecordError, Row
from warehouse.importers.facts import note_unused
from warehouse.importers.figures import cell_key, figure, own_benchmark
from warehouse.importers.source import CSV, Source
from warehouse.importers.table import Record, each_record
from warehouse.importers.units import KNOWN, Measure, measure
from warehouse.importers.values import compact, shown

_CONTESTANT = ("contestant", "framework", "provider")
_REPEAT = ("run", "repeat", "trial", "iteration")
_VALUE, _UNIT, _METRIC, _CELL = "value", "unit", "metric", "cell"
_VALUE_WITH_UNIT = re.compile(r"(latency|time|throughput|bandwidth)_([a-z]+)")
# Names of a metric that say no more than its unit does, and what they say of the direction.
_PLAIN = {"": None, "latency": True, "time": True, "runtime": True, "duration": True, "throughput": False, "bandwidth": False}  # fmt: skip


def detects(source: Source) -> bool:
    """Whether a file has such columns."""
    columns = source.columns if source.kind == CSV else []
    return _CELL in columns and _named(columns, _CONTESTANT) is not None and _value(columns) is not None


def parse(source: Source, given: Given) -> Parsed:
    """Return a point for each line.

    Raises:
        FormatError: a column is missing or stands twice.
    """
    columns, parsed = source.columns, Parsed()
    contestant, value = _named(columns, _CONTESTANT), _value(columns)
    if contestant is None or value is None:
        raise FormatError("the table has no column for the contestant or none for the value.")
    column, unit = value
    needed = (_CELL, contestant, column)
    each_record(
        source, needed, parsed, lambda record: _point(source, record, given, contestant, column, unit)
    )
    without = unit is None and not all(record.get(_UNIT) for record in _records(source))
    note_unused(parsed, given, ("unit", "device") if without else ("device",))
    return parsed


def _records(source: Source) -> Iterator[Record]:
    for row in source.csv.rows:
        yield dict(zip(source.columns, row.cells, strict=False))


def _point(
    source: Source, record: Record, given: Given, contestant: str, column: str, unit: str | None
) -> Row:
    if not record[contestant] or not record[_CELL]:
        raise RecordError("it names no contestant or no cell")
    named = unit if unit is not None else record.get(_UNIT) or given.unit
    metric = record.get(_METRIC, "").lower()
    own = {contestant, column, _UNIT, _METRIC, "device", "version", *_REPEAT}
    conditions = {name: record[name] for name in _REPEAT if record.get(name)}
    measured = _figure(record[column], named, metric)
    if measured["value"] is None:
        conditions["written"] = record[column]
    facts = {name: cell for name, cell in record.items() if name not in own and cell}
    if metric not in _PLAIN:
        facts["metric"] = metric
    return {
        "contestant": record[contestant],
        "house": record[contestant],
        "version": record.get("version") or None,
        "benchmark": own_benchmark(source),
        "cell_key": cell_key({**facts, "benchmark": own_benchmark(source)}),
        "device": record.get("device") or given.device,
        "conditions_json": compact(conditions),
        **measured,
    }


def _figure(raw: str, unit: str | None, metric: str) -> Row:
    """The columns of the value; refused where the unit is missing, unknown, or of another kind than the metric."""
    known = measure(unit)
    refusal = None
    if not unit:
        refusal = "no unit"
    elif known is None:
        refusal = f"{shown(unit)} is no unit that is known ({KNOWN})"
    elif _PLAIN.get(metric) not in {None, known.lower_is_better}:
        refusal = f"{shown(unit)} is no unit of a {metric}"
    if known is None or refusal is not None:
        is_time = _PLAIN.get(metric)
        nothing = Measure("time_us" if is_time else metric or "unknown", 1.0, is_time)
        return figure(raw, nothing) | {"value": None, "status": "refused", "reason": refusal}
    return figure(raw, known)


def _named(columns: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _value(columns: Sequence[str]) -> tuple[str, str | None] | None:
    """The column of the value, and the unit in its name."""
    if _VALUE in columns:
        return _VALUE, None
    found = [match for name in columns if (match := _VALUE_WITH_UNIT.fullmatch(name)) and measure(match[2])]
    return (found[0][0], found[0][2]) if len(found) == 1 else None


IMPORTER = Importer(
    name="units-csv",
    about="tables with one figure a line and its unit (CSV: cell, contestant, value, unit, metric)",
    detects=detects,
    parse=parse,
)
