"""What the importers of serving benchmarks share: walking through objects, and the end of a run's row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Parsed, Row
from warehouse.importers.reading import Item
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, compact, shown

UNKNOWN = "unknown"

_KEYS_SHOWN = 4
_FIGURES = ("_ms", "_per_s")
# Clients name the protocol that they speak; these names are engines as well. 'openai' is none.
_ENGINES = {
    "vllm": "vllm",
    "vllm-chat": "vllm",
    "sglang": "sglang",
    "sglang-native": "sglang",
    "sglang-oai": "sglang",
    "sglang-oai-chat": "sglang",
    "sglang-embedding": "sglang",
    "tgi": "tgi",
    "lmdeploy": "lmdeploy",
    "lmdeploy-chat": "lmdeploy",
    "tensorrt-llm": "tensorrt-llm",
    "trt": "tensorrt-llm",
    "deepspeed-mii": "deepspeed-mii",
    "scalellm": "scalellm",
    "llama.cpp": "llama.cpp",
}


def engine_of(backend: str | None) -> str | None:
    """The engine that a client's ``backend`` names; None where it names only a protocol."""
    return _ENGINES.get((backend or "").lower())


def rate_columns(fields: Fields) -> Row:
    """``request_rate_per_s`` and ``request_rate_mode`` of the field ``request_rate``."""
    value = fields.raw("request_rate")
    try:
        rate, mode = serving.request_rate(value)
    except (ValueError, OverflowError):
        fields.problems.append(f"request_rate is {shown(value)}, not a rate, 'inf' or 'trace'")
        rate, mode = None, None
    return {"request_rate_per_s": rate, "request_rate_mode": mode}


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
        if not refuse_item(item, parsed, fits):
            yield item.place, item.value


def refuse_item(item: Item, parsed: Parsed, fits: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Refuse what is no record of the format; returns whether it did."""
    if item.problem is not None:
        problem = item.problem
    elif item.heading is not None:
        problem = f"a line that is not JSON: {shown(item.heading)}"
    elif not isinstance(item.value, dict):
        problem = f"{shown(item.value)} is no object"
    elif not fits(item.value):
        known = ", ".join(shown(key) for key in list(item.value)[:_KEYS_SHOWN])
        problem = f"an object of another kind (it begins with {known or 'nothing'})"
    else:
        return False
    parsed.refuse(item.place, problem)
    return True


def finish_row(
    row: Row,
    fields: Fields,
    given: Given,
    reasons: Sequence[str],
    leave_out: Iterable[str] = (),
    unused: Row | None = None,
) -> Row:
    """Fill in what the command line gives, the outcome, the reasons of what is NULL, and the rest of the source.

    Args:
        row: a ``serving_runs`` row with what the source says.
        fields: the record, of which everything that was read is in ``row``.
        given: facts that the file lacks.
        reasons: why columns are NULL, beyond what ``fields`` noticed.
        leave_out: fields that go nowhere (texts, arrays that became rows of requests).
        unused: figures of the client that the row has not, or otherwise.

    Raises:
        RecordError: what remains of the record cannot be kept as JSON.
    """
    given_facts = {name: given.facts().get(name) for name in ("engine", "model", "device")}
    for name, fact in given_facts.items():
        if row.get(name) is None:
            row[name] = fact
    if row.get("prefix_cache") in {None, UNKNOWN}:
        row["prefix_cache"] = given.prefix_cache or UNKNOWN
    missing = [name for name in given_facts if row.get(name) is None]
    notes = [*reasons, *fields.problems, *_impossible(row)]
    if missing:
        notes.append(f"not in the file: {', '.join(missing)}")
    row["engine"] = row["engine"] or UNKNOWN
    status, why = serving.outcome(row.get("requests_completed"), row.get("requests_asked"))
    row["status"] = status
    row["reason"] = "; ".join([*([why] if why else []), *notes]) or None
    extra = fields.rest(leave_out)
    if unused:
        extra["client_figures_not_used"] = unused
    row["extra_json"] = compact(extra)
    return row


def _impossible(row: Row) -> list[str]:
    """Make NULL what no run can have, and say so: hostile files and clients that lost count must not lead."""
    reasons = []
    for name, value in row.items():
        if name.endswith(_FIGURES) and isinstance(value, int | float) and value < 0:
            row[name] = None
            reasons.append(f"{name} is {value:g}, below 0")
    if row.get("max_concurrency") == 0:
        row["max_concurrency"] = None
        reasons.append("max_concurrency is 0")
    completed, asked = row.get("requests_completed"), row.get("requests_asked")
    if completed is not None and asked is not None and completed > asked:
        row["requests_completed"] = None
        reasons.append(f"{completed} requests completed of {asked}, which contradicts itself")
    return reasons
