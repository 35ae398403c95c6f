"""Serving runs of clients that report sums alone: a document becomes a run, and what has no column is kept beside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from warehouse.importers.base import Given, Parsed, Row
from warehouse.importers.serving_rows import finish_row
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, shown
from warehouse.schema import schema_of

Document = Mapping[str, Any]

PASSED = "passed"
_MEASURED = ("_ms", "_per_s")
_ASKED = "request_rate_per_s"
_TOKEN_TIMES = (
    "ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p50_ms", "itl_mean_ms", "itl_unit",
)  # fmt: skip
_SAME = 1e-6


def documents(source: Source, parsed: Parsed) -> Iterator[tuple[str, Document]]:
    """Iterate over the objects of a JSON file with their places; what is none is counted and refused.

    The objects themselves are not counted: how many records one holds, its format knows.
    """
    for item in source.items:
        if isinstance(item.value, dict):
            yield item.place, item.value
            continue
        parsed.expect()
        what = item.heading if item.heading is not None else item.value
        parsed.refuse(item.place, item.problem or f"{shown(what)} is no JSON object")


def run_row(row: Row, extra: Document, given: Given, reasons: Sequence[str] = ()) -> Row:
    """Return a finished row of ``serving_runs``.

    Args:
        row: what the source says; a ``status`` and ``reason`` of its own mark a run that is no result, whose
            figures can be read and lead nothing.
        extra: what the source says and the table has no column for.
        given: facts that the file lacks.
        reasons: why columns are NULL.

    Raises:
        RecordError: ``extra`` cannot be kept as JSON.
    """
    status, why = row.pop("status", PASSED), row.pop("reason", None)
    kept = {name: value for name, value in extra.items() if value is not None}
    notes = list(reasons)
    if row.get("output_tokens") == 0 and row.get("requests_completed"):
        row["requests_completed"] = 0
        notes.append("what the client calls completed gave no token")
    if _whole_answers(row):
        row |= dict.fromkeys(_TOKEN_TIMES)
        notes.append("answers of several tokens came whole: there are no times of tokens")
    done = finish_row(row, Fields(kept), given, notes)
    if status != PASSED:
        done["status"] = status
        done["reason"] = "; ".join(part for part in (why, done["reason"]) if part)
    if done.get("requests_completed") == 0:  # what the client sums up are times of failures
        done |= {name: None for name in done if name.endswith(_MEASURED) and name != _ASKED}
        done["itl_unit"] = None
    return done


def _whole_answers(row: Row) -> bool:
    """Whether the first token came with the last one: a client or server that did not stream."""
    ttft, e2e = row.get("ttft_mean_ms"), row.get("e2e_mean_ms")
    tokens, completed = row.get("output_tokens"), row.get("requests_completed")
    several = tokens is not None and completed is not None and tokens > completed
    return several and ttft is not None and e2e is not None and math.isclose(ttft, e2e, rel_tol=_SAME)


def request_table(rows: Sequence[Row]) -> tuple[pa.Table, ...]:
    """Return rows of ``serving_requests`` as the table that a run carries; none where there are no rows."""
    if not rows:
        return ()
    own = {"schema_version", "serving_id"}
    schema = pa.schema([field for field in schema_of("serving_requests") if field.name not in own])
    return (pa.Table.from_pylist(list(rows), schema=schema),)
