"""What an importer made of a file goes into the lake: once, whole, and with every record accounted for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.append import append
from warehouse.cast import cast
from warehouse.errors import SchemaError, WarehouseError
from warehouse.importers.base import FormatError, Given, Importer, Kind, Parsed, Placed, Refusal, Row, Run
from warehouse.importers.source import Source
from warehouse.importers.values import canonical
from warehouse.lake import scan
from warehouse.schema import TABLES, schema_of

RUNS, REQUESTS = "serving_runs", "serving_requests"


class LostRecordError(WarehouseError):
    """An importer met more records than it made rows and refusals of: a defect of the importer."""

    exit_code = 1


class OtherFactsError(FormatError):
    """The same file is in the lake already, imported with other facts."""


@dataclass
class Known:
    """What lakes have of earlier imports."""

    imports: dict[str, Row] = field(default_factory=dict)  # by import_id
    runs: dict[str, str] = field(default_factory=dict)  # serving_id -> import_id

    @classmethod
    def of(cls, *lakes: Path) -> Known:
        """Read it from the lakes.

        Raises:
            StorageError: a lake cannot be read.
        """
        known = cls()
        for found in map(scan, lakes):
            for path in found.files("imports"):
                known.imports.update((row["import_id"], row) for row in pq.read_table(path).to_pylist())
            for path in found.files(RUNS):
                table = pq.read_table(path, columns=["serving_id", "import_id"])
                ids = (table[name].to_pylist() for name in ("serving_id", "import_id"))
                known.runs.update(zip(*ids, strict=True))
        return known


@dataclass
class Stored:
    """What became of one file."""

    source: str
    format: str
    rows: dict[str, int] = field(default_factory=dict)  # added now, by table
    records_in: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    already: bool = False  # the very same file was imported before

    def refused(self, kind: Kind) -> int:
        """Records that were refused for a reason of this kind."""
        return sum(refusal.records for refusal in self.refusals if refusal.kind is kind)


def import_id(importer: Importer, source: Source, given: Given) -> str:
    """Return the identity of an import: format, content, given facts, and the name where it says something."""
    parts: list[Any] = [source.sha256, given.facts()]
    if importer.name_matters:
        parts.append(_file_name(source.name))
    digest = hashlib.sha256(canonical(parts)).hexdigest()
    return f"{importer.name}:{digest[:32]}"


def store(
    lake: Path, importer: Importer, source: Source, given: Given, parsed: Parsed, known: Known
) -> Stored:
    """Add the rows of ``parsed`` that ``lake`` does not have, and the row of ``imports``.

    Requests are written before their runs, and ``imports`` last: a kill leaves rows that the next import of the
    same file writes again, equal to the last value, so that the build counts them once.

    Args:
        lake: the lake to add to.
        importer: the format.
        source: the file.
        given: facts of the command line.
        parsed: what the importer made of the file.
        known: what the lake has; brought up to date.

    Raises:
        LostRecordError: the records do not add up.
        OtherFactsError: the file was imported before, with other facts.
        StorageError: the lake cannot be written.
    """
    this = import_id(importer, source, given)
    before = known.imports.get(this)
    if before is None:
        _refuse_other_facts(importer, source, given, known)
    refusals = list(parsed.refusals)
    tables = _tables(parsed, this, known, refusals)
    rows_out = sum(table.num_rows for table in tables.values())
    refused = sum(refusal.records for refusal in refusals)
    if rows_out + refused != parsed.records_in:
        raise LostRecordError(
            f"{source.name}: {parsed.records_in} records became {rows_out} rows and {refused} refusals as "
            f"{importer.name}; nothing of it was imported, and this is a defect of that importer."
        )
    result = Stored(source.name, importer.name, {}, parsed.records_in, refusals, list(parsed.notes))
    if before is not None and before["rows_out"]:
        result.already = True
        return result
    for name, table in tables.items():
        if table.num_rows:
            append(lake, name, table)
            result.rows[name] = table.num_rows
    if rows_out or (before is None and refused > result.refused(Kind.BAD)):
        row = _imports_row(this, importer, source, given, parsed, refusals, rows_out)
        append(lake, "imports", [row])
        known.imports[this] = row
    known.runs.update((serving_id, this) for serving_id in tables[RUNS]["serving_id"].to_pylist())
    return result


def _tables(parsed: Parsed, this: str, known: Known, refusals: list[Refusal]) -> dict[str, pa.Table]:
    """Return what is new, by table in the order of writing; what the lake refuses or has is added to ``refusals``."""
    runs = _new_runs(parsed.runs, this, known, refusals)
    run_table = _checked(RUNS, [Placed(run.row, run.place) for run in runs], refusals)
    fitting = set(run_table["serving_id"].to_pylist())
    refusals.extend(
        Refusal(run.place, "requests of a run that was refused", records=run.records - 1)
        for run in runs
        if run.row["serving_id"] not in fitting and run.records > 1
    )
    requests = [
        _with_id(table, run.row["serving_id"])
        for run in runs
        if run.row["serving_id"] in fitting
        for table in run.requests
    ]
    others = {
        name: _checked(name, _filled(name, placed, this), refusals) for name, placed in parsed.rows.items()
    }
    return {
        REQUESTS: pa.concat_tables(requests) if requests else schema_of(REQUESTS).empty_table(),
        **others,
        RUNS: run_table,
    }


def _new_runs(runs: Iterable[Run], this: str, known: Known, refusals: list[Refusal]) -> list[Run]:
    """Leave out the runs that stand twice or are known from another file, and number the repeats of the rest."""
    kept: list[Run] = []
    seen: dict[str, str] = {}
    repeats: dict[str, int] = {}
    for run in runs:
        serving_id = run.row["serving_id"]
        if serving_id in seen:
            reason = f"the same record as {seen[serving_id]}, which counts once"
            refusals.append(Refusal(run.place, reason, Kind.REPEATED, run.records))
            continue
        seen[serving_id] = run.place
        # Numbered before known ones are left out: a file that grew gives its later runs the same numbers.
        point = run.configuration or serving_id
        repeats[point] = repeats.get(point, 0) + 1
        if known.runs.get(serving_id, this) != this:
            other = known.imports.get(known.runs[serving_id] or "", {}).get("source", "another import")
            reason = f"the lake has this run from {other}"
            refusals.append(Refusal(run.place, reason, Kind.KNOWN, run.records))
            continue
        row = {"import_id": this, "evidence": "imported", "repeat": repeats[point]}
        kept.append(Run({**row, **_given_values(run.row)}, run.place, run.requests, run.configuration))
    return kept


def _given_values(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _filled(table: str, placed: Iterable[Placed], this: str) -> list[Placed]:
    """Fill in what every row of the table has in common, where it leaves it out."""
    columns = TABLES[table].columns
    common: Row = {"import_id": this, "evidence": "imported"}
    if table == "points":
        common["status"] = "unverified"
    common = {name: value for name, value in common.items() if name in columns}
    numbered = "row" in columns
    return [
        Placed({**common, **({"row": number} if numbered else {}), **each.row}, each.place)
        for number, each in enumerate(placed)
    ]


def _checked(table: str, placed: Sequence[Placed], refusals: list[Refusal]) -> pa.Table:
    """Return the rows that fit the schema as a table; the others become refusals."""
    try:
        return cast(table, [each.row for each in placed])
    except SchemaError:
        good: list[Row] = []
        for each in placed:
            try:
                cast(table, [each.row])
            except SchemaError as error:
                refusals.append(Refusal(each.place, str(error).rstrip(".")))
            else:
                good.append(each.row)
        return cast(table, good)


def _with_id(requests: pa.Table, serving_id: str) -> pa.Table:
    column = pa.repeat(pa.scalar(serving_id, pa.string()), requests.num_rows)
    return cast(REQUESTS, requests.append_column("serving_id", column))


def _refuse_other_facts(importer: Importer, source: Source, given: Given, known: Known) -> None:
    for row in known.imports.values():
        same_name = not importer.name_matters or _file_name(row["source"]) == _file_name(source.name)
        if row["format"] == importer.name and row["content_sha256"] == source.sha256 and same_name:
            raise OtherFactsError(
                f"{source.name} was imported before ({row['note'] or 'without given facts'}); an import is never "
                f"changed, so give the same facts{_facts(given, ', not ')}, or import into another lake."
            )


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


def _facts(given: Given, before: str = "") -> str:
    facts = ", ".join(f"{name}={value}" for name, value in given.facts().items())
    return before + facts if facts else ""


def _imports_row(
    this: str,
    importer: Importer,
    source: Source,
    given: Given,
    parsed: Parsed,
    refusals: Sequence[Refusal],
    rows_out: int,
) -> Row:
    listed = [
        {"place": r.place, "reason": r.reason, "kind": r.kind.value, "records": r.records} for r in refusals
    ]
    notes = [f"given: {_facts(given)}"] if given.facts() else []
    return {
        "import_id": this,
        "recorded_at": datetime.now(UTC),
        "format": importer.name,
        "source": source.name,
        "content_sha256": source.sha256,
        "records_in": parsed.records_in,
        "rows_out": rows_out,
        "refused": sum(refusal.records for refusal in refusals),
        "refusals_json": json.dumps(listed) if listed else None,
        "producer_versions_json": json.dumps(parsed.versions, sort_keys=True) if parsed.versions else None,
        "note": "; ".join([*notes, *parsed.notes]) or None,
    }
