"""What an importer is, and what it hands back: rows, and a named refusal for every record that is no row.

An importer says how many records it meets (:meth:`Parsed.expect`) where it meets them, before it knows what
becomes of them, and then turns each into one row or one refusal. The two counts come from different places,
so that :func:`warehouse.importers.store.store` can refuse a file in which a record went missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from warehouse.importers.source import Source

Row = dict[str, Any]


class FormatError(WarehouseError):
    """A file cannot be imported at all; the message is one sentence without the file's name."""

    exit_code = 3


class MissingFactError(FormatError):
    """The file does not say what an import needs (unit, direction ...); the sentence names the option."""

    exit_code = 2


class UsageError(WarehouseError):
    """The command line does not say what to import, or how."""


class RecordError(Exception):
    """One record cannot become a row; the message is the reason of its refusal."""


class Kind(StrEnum):
    """Why a record is no row. Only :attr:`BAD` makes an import partial."""

    BAD = "bad"  # unreadable, contradictory, of the wrong type
    REPEATED = "repeated"  # the same record stands earlier in this file
    KNOWN = "known"  # the lake has it from another file
    EMPTY = "empty"  # the source says that there is no value: an empty cell, "nan" in a table


@dataclass(frozen=True)
class Refusal:
    """A record, or ``records`` of them, that became no row."""

    place: str  # 'line 4 (byte 812)', 'row 7, column vllm'
    reason: str
    kind: Kind = Kind.BAD
    records: int = 1


@dataclass(frozen=True)
class Given:
    """Facts that the command line gives because a file lacks them. None: not given.

    A fact never replaces one that the file has; a note says where it was not needed (:mod:`.facts`).
    """

    unit: str | None = None
    direction: str | None = None  # lower, higher: which is better
    device: str | None = None
    model: str | None = None
    engine: str | None = None
    prefix_cache: str | None = None  # off, on

    def facts(self) -> dict[str, str]:
        """Return what was given."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Placed:
    """A row and where in the source it stands."""

    row: Row
    place: str


@dataclass(frozen=True)
class Run:
    """A serving run with the rows of its requests.

    Attributes:
        row: the ``serving_runs`` row without what the framework fills in (import_id, evidence, repeat);
            its ``serving_id`` is derived from the record's content (:func:`warehouse.importers.values.identity`).
        requests: tables of ``serving_requests``, without ``serving_id``.
        configuration: what two repeats of one point have in common; repeats are numbered in its order.
    """

    row: Row
    place: str
    requests: tuple[pa.Table, ...] = ()
    configuration: str | None = None

    @property
    def records(self) -> int:
        """The records that the run stands for: itself and its requests."""
        return 1 + sum(int(table.num_rows) for table in self.requests)


@dataclass
class Parsed:
    """What an importer made of one file."""

    records_in: int = 0
    rows: dict[str, list[Placed]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def expect(self, records: int = 1) -> None:
        """Count records of the source, where they are met; each becomes one row or one refusal."""
        self.records_in += records

    def add(self, table: str, row: Mapping[str, Any], place: str) -> None:
        """Add one row of a table other than the serving ones.

        The framework fills in ``import_id``, ``row`` (the place in order), ``evidence`` ('imported') and, for
        points, ``status`` ('unverified'), where the table has such a column and the row leaves it out.
        """
        self.rows.setdefault(table, []).append(Placed(dict(row), place))

    def run(self, run: Run) -> None:
        """Add a serving run."""
        self.runs.append(run)

    def refuse(self, place: str, reason: str, kind: Kind = Kind.BAD, records: int = 1) -> None:
        """Name a record that becomes no row."""
        self.refusals.append(Refusal(place, reason, kind, records))

    def note(self, text: str) -> None:
        """Say something about the whole file, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class Importer:
    """A format.

    Attributes:
        name: as people type it, with dashes.
        about: one line: which tool writes it.
        detects: whether a source is of this format, by its content (at most one importer may say so);
            it must be cheap and never raise.
        parse: rows and refusals of a source. Raises FormatError where the file is not of the format.
        name_matters: the file's name says something that the content does not, so that equal contents
            under two names are two sources.
    """

    name: str
    about: str
    detects: Callable[[Source], bool]
    parse: Callable[[Source, Given], Parsed]
    name_matters: bool = False
