"""What the importers of serving benchmarks share: walking through objects, and the end of a run's row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Parsed, Row
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, compact, shown

UNKNOWN = "unknown"


def each_record(
    source: Source, parsed: Parsed, fits: Callable[[Mapping[str, Any]], bool]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Iterate over the records of a JSON source with their places; whatever is none is refused by name.

    Args:
        source: the file.
        parsed: takes the count of what was met, and the refusals.
        fits: whether an object is a record of the format (one that is named may not be the file's).
    """
    for item in source.items:
        parsed.expect()
        if item.problem is not None:
            parsed.refuse(item.place, item.problem)
        elif item.heading is not None:
            parsed.refuse(item.place, f"a line that is not JSON: {shown(item.heading)}")
        elif not isinstance(item.value, dict):
            parsed.refuse(item.place, f"{shown(item.value)} is no object")
        elif not fits(item.value):
            known = ", ".join(shown(key) for key in list(item.value)[:4])
            parsed.refuse(item.place, f"an object of another kind (it begins with {known or 'nothing'})")
        else:
            yield item.place, item.value


def finish_row(
    row: Row, fields: Fields, given: Given, reasons: Sequence[str], leave_out: Iterable[str] = ()
) -> Row:
    """Fill in what the command line gives, the outcome, the reasons of what is NULL, and the rest of the source.

    Args:
        row: a ``serving_runs`` row with what the source says.
        fields: the record, of which everything that was read is in ``row``.
        given: facts that the file lacks.
        reasons: why columns are NULL, beyond what ``fields`` noticed.
        leave_out: fields that go nowhere (texts, arrays that became rows of requests).

    Raises:
        RecordError: what remains of the record cannot be kept as JSON.
    """
    given_facts = {name: given.facts().get(name) for name in ("engine", "model", "device")}
    for name, fact in given_facts.items():
        if row.get(name) is None:
            row[name] = fact
    missing = [name for name in given_facts if row.get(name) is None]
    notes = [*reasons, *fields.problems]
    if missing:
        notes.append(f"not in the file: {', '.join(missing)}")
    row["engine"] = row["engine"] or UNKNOWN
    status, why = serving.outcome(row.get("requests_completed"), row.get("requests_asked"))
    row["status"] = status
    row["reason"] = "; ".join([*([why] if why else []), *notes]) or None
    row["extra_json"] = compact(fields.rest(leave_out))
    return row
