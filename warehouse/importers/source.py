"""One file to import: what kind of file it is, its content hash, and its records as text, JSON or CSV."""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from warehouse.importers.base import FormatError
from warehouse.importers.encoding import decoded, has_byte_order_mark
from warehouse.importers.reading import Item, read_items

PARQUET, JSON, CSV, TEXT, BINARY, EMPTY = "Parquet", "JSON", "CSV", "text", "binary", "empty"

_HEAD = 1 << 16
_SHOWN = 4
_FIELD_LIMIT = 1 << 24


@dataclass(frozen=True)
class CsvRow:
    """A line of a CSV file: its number (of its last physical line) and its cells as text."""

    line: int
    cells: list[str]

    @property
    def place(self) -> str:
        """Where the row stands."""
        return f"line {self.line}"


@dataclass(frozen=True)
class CsvFile:
    """Header and rows; a row keeps the cells that it has, more or fewer than the header's."""

    header: list[str]
    rows: list[CsvRow]


class Source:
    """A file. What is costly is read when it is asked for, and only parsed values are kept.

    Args:
        path: the file.
        name: how the lake calls it: relative to what was named on the command line, never a machine's path.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = os.fsencode(name or path.name).decode("utf-8", "replace")

    @functools.cached_property
    def head(self) -> bytes:
        """The first 64 KiB.

        Raises:
            FormatError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                return file.read(_HEAD)
        except OSError as error:
            raise _unreadable(error) from None

    def data(self) -> bytes:
        """The whole content, read anew.

        Raises:
            FormatError: the file cannot be read.
        """
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise _unreadable(error) from None

    @functools.cached_property
    def sha256(self) -> str:
        """Of the content.

        Raises:
            FormatError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(error) from None

    @functools.cached_property
    def kind(self) -> str:
        """Parquet, JSON, CSV, text, binary or empty, by content and, where that leaves it open, by suffix."""
        head = self.head
        if not head.strip():
            return EMPTY
        if head.startswith(b"PAR1") or self.path.suffix == ".parquet":
            return PARQUET
        if b"\0" in head and not has_byte_order_mark(head):
            return BINARY
        if self.path.suffix == ".csv":
            return CSV
        text = decoded(head).lstrip()
        if text[:1] in "{[" or self.path.suffix in {".json", ".jsonl"} or "\n{" in text:
            return JSON
        table = self.path.suffix in {"", ".txt"} and "," in text.partition("\n")[0]
        return CSV if table else TEXT

    @functools.cached_property
    def items(self) -> list[Item]:
        """The JSON values of the file in order, those of a top-level list one by one, and what is none."""
        return read_items(self.data()) if self.kind == JSON else []

    def objects(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the JSON objects among :attr:`items`."""
        return (item.value for item in self.items if isinstance(item.value, dict))

    @property
    def first(self) -> Mapping[str, Any]:
        """The first JSON object; empty where there is none."""
        return next(self.objects(), {})

    @functools.cached_property
    def csv(self) -> CsvFile:
        """Header and rows of a CSV file.

        Raises:
            FormatError: the text cannot be read as CSV.
        """
        csv.field_size_limit(_FIELD_LIMIT)
        reader = csv.reader(io.StringIO(decoded(self.data()), newline=""))
        rows: list[CsvRow] = []
        try:
            rows.extend(CsvRow(reader.line_num, cells) for cells in reader if cells)
        except csv.Error as error:
            raise FormatError(f"line {reader.line_num} cannot be read as CSV: {error}.") from None
        return CsvFile(rows[0].cells if rows else [], rows[1:])

    @functools.cached_property
    def columns(self) -> list[str]:
        """Column names of a CSV header or a Parquet schema; none where the file has no such thing."""
        if self.kind == CSV:
            try:
                return [name.strip() for name in self.csv.header]
            except FormatError:
                return []
        if self.kind == PARQUET:
            try:
                return list(pq.read_schema(self.path).names)
            except (OSError, ValueError):  # ArrowInvalid is a ValueError
                return []
        return []

    def describe(self) -> str:
        """Say what kind of file this is and what it begins with, in a few words."""
        if self.kind == JSON:
            problem = next((f"{i.place}: {i.problem}" for i in self.items if i.problem), "no object in it")
            return f"this JSON file ({_shown(self.first) or problem})"
        if self.kind in {CSV, PARQUET}:
            return f"this {self.kind} file ({', '.join(self.columns[:_SHOWN]) or 'unreadable'})"
        return f"this {self.kind} file"


def _unreadable(error: OSError) -> FormatError:
    return FormatError(f"it cannot be read: {error.strerror or type(error).__name__}.")


def _shown(first: Mapping[str, Any]) -> str:
    return ", ".join(str(key)[:40] for key in list(first)[:_SHOWN])
