"""Per-request arrays of a serving benchmark (vLLM's and SGLang's have the same names) as rows, block by block.

``input_lens``, ``output_lens``, ``ttfts``, ``itls``, ``latencies``, ``start_times`` and ``errors`` are parallel
lists in seconds, each present or not on its own. What a time means is decided in :mod:`warehouse.serving`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from warehouse import serving
from warehouse.importers.base import Kind, Parsed, RecordError, Row
from warehouse.importers.values import count, real, shown
from warehouse.schema import TABLES

ARRAYS = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors")
OTHER_ARRAYS = (
    "queue_times",
    "generated_texts",
)  # as long, and not kept: waiting at the client, and the answers

_SAID = ("output_lens", "errors")  # what tells a success from a failure
_BLOCK = 2000  # requests converted at a time: chunk gaps are the bulk of a file, and are not held twice
_SCHEMA = pa.schema(
    [f for f in TABLES["serving_requests"].schema if f.name not in {"schema_version", "serving_id"}]
)


@dataclass
class Detail:
    """Requests of one run.

    Attributes:
        listed: how many requests the arrays list, refused ones included.
        refused: how many of them became no row.
        tables: their rows of ``serving_requests``, without ``serving_id``.
        rows: the same without chunk gaps, for :func:`warehouse.serving.summarise`.
        errors: their error texts; None where the source has none.
        gap_sum_ms: sum of the chunk gaps of usable successes.
        gaps: their number.
        units: ``token`` and ``chunk``, those that occur.
    """

    listed: int = 0
    refused: int = 0
    tables: list[pa.Table] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    errors: list[str] | None = None
    gap_sum_ms: float = 0.0
    gaps: int = 0
    units: set[str] = field(default_factory=set)

    def summary(self, duration_s: float | None) -> Row:
        """Return the columns of ``serving_runs`` that follow from the requests."""
        made = serving.summarise(self.rows, duration_s)
        made["itl_mean_ms"] = self.gap_sum_ms / self.gaps if self.gaps else None
        made["itl_unit"] = "chunk" if "chunk" in self.units else next(iter(self.units), None)
        return made


def read_detail(
    record: Mapping[str, Any], place: str, parsed: Parsed, *, all_succeeded: bool = False
) -> Detail:
    """Turn the arrays of ``record`` into requests; each is a record of the source, and a bad one is refused by name.

    Args:
        record: the run's object.
        place: of the run.
        parsed: takes the count of the requests, and the refusals.
        all_succeeded: the source says elsewhere that no request failed.
    """
    arrays = {name: record[name] for name in ARRAYS if isinstance(record.get(name), list)}
    detail = Detail(listed=max(map(len, arrays.values()), default=0))
    if not detail.listed:
        return detail
    parsed.expect(detail.listed)
    problem = _problem(arrays, all_succeeded=all_succeeded)
    if problem:
        detail.refused = detail.listed
        kind = Kind.BAD if len({*map(len, arrays.values())}) > 1 else Kind.EMPTY
        parsed.refuse(f"{place}, its {detail.listed} requests", problem, kind, detail.listed)
        return detail
    if "errors" in arrays:
        detail.errors = [error if isinstance(error, str) else "" for error in arrays["errors"]]
    starts = [start for start in map(real, arrays.get("start_times", ())) if start is not None]
    first = min(starts, default=0.0)
    for begin in range(0, detail.listed, _BLOCK):
        block = list(_block(arrays, begin, first, place, parsed, detail))
        detail.tables.append(pa.Table.from_pylist(block, schema=_SCHEMA))
        _count_gaps(block, detail)
        for row in block:
            row["chunk_gaps_ms"] = None
        detail.rows += block
    return detail


def _problem(arrays: Mapping[str, Sequence[Any]], *, all_succeeded: bool) -> str | None:
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        return "the arrays differ in length: " + ", ".join(f"{name} {n}" for name, n in lengths.items())
    if not all_succeeded and not any(name in arrays for name in _SAID):
        return "the file does not say which of them failed (neither output_lens nor errors)"
    return None


def _block(
    arrays: Mapping[str, list[Any]],
    begin: int,
    first_start: float,
    place: str,
    parsed: Parsed,
    detail: Detail,
) -> Iterator[Row]:
    for index in range(begin, min(begin + _BLOCK, detail.listed)):
        try:
            yield _request({name: values[index] for name, values in arrays.items()}, index, first_start)
        except RecordError as error:
            detail.refused += 1
            parsed.refuse(f"{place}, request {index}", str(error))
        if "itls" in arrays:
            arrays["itls"][index] = None  # converted: the largest part of the file leaves memory


def _request(values: Mapping[str, Any], index: int, first_start: float) -> Row:
    error = values.get("errors")
    if not (error is None or isinstance(error, str)):
        raise RecordError(f"its error is {shown(error)}, not a text")
    start = _number("start_times", values)
    try:
        return serving.request_row(
            index,
            error=error,
            input_tokens=_count("input_lens", values),
            output_tokens=_count("output_lens", values),
            ttft_s=_number("ttfts", values),
            chunk_gaps_s=_gaps(values.get("itls")),
            latency_s=_number("latencies", values),
            start_s=None if start is None else start - first_start,
        )
    except (TypeError, OverflowError):
        raise RecordError("its itls are not all numbers") from None


def _number(name: str, values: Mapping[str, Any]) -> float | None:
    found = values.get(name)
    value = real(found)
    if value is None and not (found is None or (isinstance(found, float) and not math.isfinite(found))):
        raise RecordError(f"{name} has {shown(found)}, not a number")
    if value is not None and value < 0 and name != "start_times":
        raise RecordError(f"{name} has {value:g}, below 0")
    return value


def _count(name: str, values: Mapping[str, Any]) -> int | None:
    found = values.get(name)
    value = count(found)
    if value is None and found is not None:
        raise RecordError(f"{name} has {shown(found)}, not a whole number from 0")
    return value


def _gaps(found: Any) -> list[float] | None:
    if found is None:
        return None
    if not isinstance(found, list):
        raise RecordError(f"its itls are {shown(found)}, not a list")
    if found and min(found) < 0:
        raise RecordError(f"itls has {min(found):g}, below 0")
    return found


def _count_gaps(block: Sequence[Row], detail: Detail) -> None:
    usable = [row for row in block if row["ok"] and row["chunk_gaps_ms"]]
    unit = serving.itl_unit(usable)
    if unit:
        detail.units.add(unit)
    gaps = sum(len(row["chunk_gaps_ms"]) for row in usable)
    if gaps:
        detail.gaps += gaps
        detail.gap_sum_ms += math.fsum(gap for row in usable for gap in row["chunk_gaps_ms"])
