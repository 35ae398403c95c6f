"""SGLang ``bench_one_batch`` and ``bench_one_batch_server``: JSON lines, one fixed batch each, no concurrency.

People collect the lines of several setups in one file under headings of plain text; a heading says which setup
the lines below it are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.serving_rows import finish_row, refuse_item
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, canonical, identity

NAME = "sglang-one-batch"

_KEYS = {"batch_size", "input_len", "output_len"}
_REASON = "one batch: lengths as asked, every request of it ends with the batch"


def fits(record: Mapping[str, Any]) -> bool:
    """Whether an object is a batch of this tool."""
    return record.keys() >= _KEYS and ("latency" in record or "output_throughput" in record)


def detects(source: Source) -> bool:
    """Whether the first object is a batch of this tool."""
    return fits(source.first)


def parse(source: Source, given: Given) -> Parsed:
    """A row of ``serving_runs`` for each line that is a batch; headings go into ``extra_json`` of those below."""
    parsed = Parsed()
    heading: str | None = None
    for item in source.items:
        if item.heading is not None:
            heading = item.heading.rstrip(" :")
            continue
        parsed.expect()
        if refuse_item(item, parsed, fits):
            continue
        try:
            parsed.run(_run(item.value, item.place, heading, given))
        except RecordError as error:
            parsed.refuse(item.place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


def _run(record: Mapping[str, Any], place: str, heading: str | None, given: Given) -> Run:
    # A line has four digits, so two setups may well have equal lines: the heading is part of what it is.
    under = {**record, **({"section": heading} if heading else {})}
    fields = Fields(under)
    latency = fields.positive("latency")
    batch = fields.count("batch_size")
    row: Row = {
        "serving_id": identity(NAME, under),
        "engine": "sglang",
        "client": "sglang bench_one_batch",
        "input_tokens_asked": fields.count("input_len"),
        "output_tokens_asked": fields.count("output_len"),
        "requests_asked": batch,
        "requests_completed": batch if latency else None,
        "duration_s": latency,
        "e2e_mean_ms": None if latency is None else latency * 1e3,
        "output_tokens_per_s": fields.positive("output_throughput"),
        "total_tokens_per_s": fields.positive("overall_throughput"),
    }
    setup = ("section", "run_name", *sorted(_KEYS))
    point = canonical({name: under.get(name) for name in setup}).decode()
    row = finish_row(row, fields, given, [_REASON])
    return Run(row, place, configuration=point)


IMPORTER = Importer(NAME, "SGLang bench_one_batch: JSON lines, headings allowed", detects, parse)
