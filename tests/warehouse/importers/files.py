"""Small foreign files, what an importer makes of them, and warehouses of what was imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from warehouse.build import build
from warehouse.importers.base import Given, Parsed, Row
from warehouse.importers.importing import ImportReport, import_paths
from warehouse.importers.registry import by_name, detect
from warehouse.importers.source import Source


def written(folder: Path, name: str, content: Any) -> Path:
    """Write a file: text and bytes as they are, anything else as JSON."""
    path = folder / name
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parsed(path: Path, format_name: str, **facts: str) -> Parsed:
    """Parse a file as what it is detected to be, which must be the format; every record is accounted for."""
    source = Source(path)
    assert detect(source).name == format_name
    result = by_name(format_name).parse(source, Given(**facts))
    rows = sum(len(placed) for placed in result.rows.values()) + sum(run.records for run in result.runs)
    assert result.records_in == rows + sum(refusal.records for refusal in result.refusals)
    return result


def points(result: Parsed) -> list[Row]:
    """The rows of ``points``."""
    return [placed.row for placed in result.rows.get("points", [])]


def refusals(result: Parsed) -> dict[str, str]:
    """Place -> reason of every refusal."""
    return {refusal.place: refusal.reason for refusal in result.refusals}


def run_of(result: Parsed) -> Row:
    """The only serving run."""
    (run,) = result.runs
    return run.row


def brought_in(lake: Path, *paths: Path, **facts: str) -> ImportReport:
    """Import files into a lake as the command does."""
    return ImportReport(list(import_paths(paths, lake, None, Given(**facts))))


class Warehouse:
    """A built warehouse that answers queries."""

    def __init__(self, lake: Path) -> None:
        self.path = lake.with_suffix(".db")
        build([lake], self.path)

    def rows(self, sql: str) -> list[Row]:
        """Return the result as dictionaries."""
        with duckdb.connect(str(self.path), read_only=True) as con:
            cursor = con.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str) -> Row:
        """Return the only row."""
        (row,) = self.rows(sql)
        return row
