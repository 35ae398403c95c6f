"""Tables of ``triton.testing.perf_report``: CSV, first the column or columns of x, then one column a contestant.

Neither the unit nor the direction stands in the file (they are in the label of the plot's y axis), nor does
the device, the time, or a version: unit and direction have to be given, and figures of two files never meet.
All numbers are written as floats, so that a column of x is told from a contestant by its whole numbers.
"""

from __future__ import annotations

import re
from typing import Any

from warehouse.importers.base import FormatError, Given, Importer, MissingFactError, Parsed
from warehouse.importers.facts import note_unused
from warehouse.importers.figures import cell_key, figure, own_benchmark
from warehouse.importers.pick import number
from warehouse.importers.source import CSV, CsvFile, Source
from warehouse.importers.units import KNOWN, Measure, measure
from warehouse.importers.values import shown

_FLOAT = re.compile(r"-?\d+\.\d+")
_TOKENS = {"num_tokens", "tokens"}
_DIRECTIONS = {"lower": True, "higher": False}


def detects(source: Source) -> bool:
    """Whether a file is a CSV of floats under names, x written as a float too."""
    if source.kind != CSV or len(source.columns) < _COLUMNS:
        return False
    try:
        rows = source.csv.rows
    except FormatError:
        return False
    return bool(rows) and all(
        _FLOAT.fullmatch(row.cells[0].strip()) and all(map(_is_figure, row.cells)) for row in rows
    )


_COLUMNS = 2


def parse(source: Source, given: Given) -> Parsed:
    """Return a point for each row and contestant; an empty cell and ``nan`` are NULL with their reason.

    Raises:
        MissingFactError: the unit or the direction is not given, or they contradict each other.
        FormatError: the file is no such table.
    """
    known = _measure(given)
    table = source.csv
    header = [name.strip() for name in table.header]
    if len(header) < _COLUMNS or not all(header) or len(set(header)) < len(header):
        raise FormatError("the first line does not name each column, x first, once.")
    x_count = _x_columns(table, len(header))
    parsed, benchmark = Parsed(), own_benchmark(source)
    for row in table.rows:
        x = {name: number(cell) for name, cell in zip(header[:x_count], row.cells, strict=False)}
        bad = next((name for name, value in x.items() if value is None), None)
        if len(row.cells) != len(header):
            parsed.expect()
            parsed.refuse(row.place, f"{len(row.cells)} cells under {len(header)} names")
            continue
        if bad is not None:
            parsed.expect()
            parsed.refuse(row.place, f"{bad} is {shown(row.cells[header.index(bad)])}, not a number")
            continue
        sizes = {
            name: int(value) if value.is_integer() else value
            for name, value in x.items()
            if value is not None
        }
        parsed.expect(len(header) - x_count)
        for name, cell in zip(header[x_count:], row.cells[x_count:], strict=True):
            parsed.add(
                "points",
                {
                    "contestant": name,
                    "house": name,
                    "tokens": _tokens(sizes),
                    "benchmark": benchmark,
                    "cell_key": cell_key({"benchmark": benchmark, **sizes}),
                    "device": given.device,
                    **figure(cell, known),
                },
                f"{row.place}, column {name}",
            )
    note_unused(parsed, given, ("unit", "direction", "device"))
    parsed.note(f"x: {', '.join(header[:x_count])}; contestants: {', '.join(header[x_count:])}")
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


def _x_columns(table: CsvFile, columns: int) -> int:
    """How many leading columns are x: those of whole numbers alone; the first one always is."""
    found = 1
    while found < columns and table.rows and all(_is_whole(row.cells, found) for row in table.rows):
        found += 1
    if found == columns:
        raise FormatError(
            "every column holds whole numbers alone, so that x cannot be told from a contestant."
        )
    return found


def _is_whole(cells: list[str], column: int) -> bool:
    value = number(cells[column]) if column < len(cells) else None
    return value is not None and value.is_integer()


def _is_figure(cell: str) -> bool:
    return not cell.strip() or number(cell) is not None or cell.strip().lower() in {"nan", "inf", "-inf"}


def _tokens(sizes: dict[str, Any]) -> int | None:
    found = next((value for name, value in sizes.items() if name in _TOKENS), None)
    return found if isinstance(found, int) else None


IMPORTER = Importer(
    name="triton-perf-report",
    about="tables of triton.testing.perf_report (CSV); needs --unit and --direction",
    detects=detects,
    parse=parse,
)
