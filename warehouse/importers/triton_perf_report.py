"""Tables of ``triton.testing.perf_report``: CSV, first the column or columns of x, then one column a contestant.

Neither the unit nor the direction stands in the file (they are in the label of the plot's y axis), nor does
the device, the time, or a version: unit and direction have to be given, and figures of two files never meet.
All numbers are written as floats, so that a column of x is told from a contestant by its whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warehouse.importers.base import FormatError, Given, Importer, MissingFactError, Parsed, RecordError
from warehouse.importers.facts import note_unused
from warehouse.importers.figures import cell_key, figure, own_benchmark
from warehouse.importers.pick import number
from warehouse.importers.source import CSV, Source
from warehouse.importers.units import KNOWN, Measure, measure
from warehouse.importers.values import shown

_FLOAT = re.compile(r"-?\d+\.\d+")
_COLUMNS = 2  # x and a contestant at least
_TOKENS = {"num_tokens", "tokens"}
_DIRECTIONS = {"lower": True, "higher": False}


def detects(source: Source) -> bool:
    """Whether a file is a CSV of floats under names, x written as a float too, but for a few damaged lines."""
    if source.kind != CSV or len(source.columns) < _COLUMNS:
        return False
    try:
        rows = source.csv.rows
    except FormatError:
        return False
    fitting = sum(
        _FLOAT.fullmatch(row.cells[0].strip()) is not None and all(map(_is_figure, row.cells)) for row in rows
    )
    headed = all(number(name) is None for name in source.columns)
    return headed and 2 * fitting > len(rows)


def parse(source: Source, given: Given) -> Parsed:
    """Return a point for each row and contestant; an empty cell and ``nan`` are NULL with their reason.

    Raises:
        MissingFactError: the unit or the direction is not given, or they contradict each other.
        FormatError: the file is no such table.
    """
    known = _measure(given)
    header = source.columns
    if len(header) < _COLUMNS or not all(header) or len(set(header)) < len(header):
        raise FormatError("the first line does not name each column, x first, once.")
    rows = source.csv.rows
    x_names = header[: _x_columns([row.cells for row in rows if len(row.cells) == len(header)], len(header))]
    contestants = header[len(x_names) :]
    parsed, benchmark = Parsed(), own_benchmark(source)
    for row in rows:
        try:
            sizes = _sizes(header, x_names, row.cells)
        except RecordError as error:
            parsed.expect()
            parsed.refuse(row.place, str(error))
            continue
        parsed.expect(len(contestants))
        cell = {
            "benchmark": benchmark,
            "cell_key": cell_key({"benchmark": benchmark, **sizes}),
            "device": given.device,
            "tokens": next((size for name, size in sizes.items() if name in _TOKENS), None),
        }
        for name, raw in zip(contestants, row.cells[len(x_names) :], strict=True):
            point = {**cell, "contestant": name, "house": name, **figure(raw, known)}
            parsed.add("points", point, f"{row.place}, column {name}")
    note_unused(parsed, given, ("unit", "direction", "device"))
    parsed.note(f"x: {', '.join(x_names)}; contestants: {', '.join(contestants)}")
    return parsed


def _measure(given: Given) -> Measure:
    if given.unit is None or given.direction is None:
        raise MissingFactError(
            "a perf_report table says neither its unit nor which direction is better; "
            f"give --unit ({KNOWN}) and --direction (lower or higher)."
        )
    known = measure(given.unit)
    if known is None:
        raise MissingFactError(f"{shown(given.unit)} is no unit that is known; give one of {KNOWN}.")
    if given.direction not in _DIRECTIONS:
        raise MissingFactError(f"{shown(given.direction)} is no direction; give lower or higher.")
    if known.lower_is_better != _DIRECTIONS[given.direction]:
        raise MissingFactError(
            f"{given.unit} with --direction {given.direction} contradict each other; correct one of them."
        )
    return known


def _x_columns(rows: Sequence[Sequence[str]], columns: int) -> int:
    """How many leading columns of the complete rows are x: those whose numbers are whole; the first always is."""
    found = 1
    while found < columns:
        values = [value for row in rows if (value := number(row[found])) is not None]
        if not values or not all(value.is_integer() for value in values):
            return found
        found += 1
    raise FormatError("every column holds whole numbers alone, so that x cannot be told from a contestant.")


def _sizes(header: Sequence[str], x_names: Sequence[str], cells: Sequence[str]) -> dict[str, int | float]:
    """The x of a row."""
    if len(cells) != len(header):
        raise RecordError(f"{len(cells)} cells under {len(header)} names")
    sizes: dict[str, int | float] = {}
    for name, cell in zip(x_names, cells, strict=False):
        value = number(cell)
        if value is None:
            raise RecordError(f"{name} is {shown(cell)}, not a number")
        sizes[name] = int(value) if value.is_integer() else value
    return sizes


def _is_figure(cell: str) -> bool:
    return number(cell) is not None or cell.strip().lower() in {"", "nan", "inf", "-inf"}


IMPORTER = Importer(
    name="triton-perf-report",
    about="tables of triton.testing.perf_report (CSV); needs --unit and --direction",
    detects=detects,
    parse=parse,
)
