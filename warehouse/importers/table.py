"""CSV tables with one record a line: a header that names each column once, and cells by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warehouse.importers.base import FormatError, Parsed, RecordError, Row
from warehouse.importers.source import Source

Record = Mapping[str, str]


def each_record(
    source: Source, required: Sequence[str], parsed: Parsed, convert: Callable[[Record], Row]
) -> None:
    """Add a row of ``points`` for each line; a line that becomes none is refused with its number.

    Args:
        source: a CSV file.
        required: columns without which the file is not of the format.
        parsed: where rows and refusals go.
        convert: makes the row of a record, or raises RecordError with the reason.

    Raises:
        FormatError: a required column is missing, or a name stands twice.
    """
    header = source.columns
    missing = [name for name in required if name not in header]
    if missing:
        raise FormatError(f"the table has no column {missing[0]}.")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"the column {twice!r} stands twice.")
    parsed.expect(len(source.csv.rows))
    for row in source.csv.rows:
        try:
            if len(row.cells) != len(header):
                raise RecordError(f"{len(row.cells)} cells under {len(header)} names")
            record = dict(zip(header, (cell.strip() for cell in row.cells), strict=True))
            parsed.add("points", convert(record), row.place)
        except RecordError as error:
            parsed.refuse(row.place, str(error))
