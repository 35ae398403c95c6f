"""vLLM ``bench throughput``: one JSON object with the rate of an offline batch, and no latency at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.serving_rows import each_record, finish_row
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, identity

NAME = "vllm-throughput"


def fits(record: Mapping[str, Any]) -> bool:
    """Whether an object has the keys that this tool writes."""
    return {"elapsed_time", "num_requests", "requests_per_second", "tokens_per_second"} <= record.keys()


def detects(source: Source) -> bool:
    """Whether the first object is a record of this tool."""
    return fits(source.first)


def parse(source: Source, given: Given) -> Parsed:
    """One row of ``serving_runs`` for each object; tokens in and out are known only together."""
    parsed = Parsed()
    for place, record in each_record(source, parsed, fits):
        try:
            fields = Fields(record)
            duration = fields.positive("elapsed_time")
            row = {
                "serving_id": identity(NAME, record),
                "engine": "vllm",
                "client": "vllm bench throughput",
                "requests_asked": fields.count("num_requests"),
                "requests_completed": fields.count("num_requests"),
                "duration_s": duration,
                "requests_per_s": fields.positive("requests_per_second"),
                "total_tokens_per_s": fields.positive("tokens_per_second"),
            }
            reasons = [
                "an offline batch: no latency, and input and output tokens are counted together",
            ]
            parsed.run(Run(finish_row(row, fields, given, reasons), place))
        except RecordError as error:
            parsed.refuse(place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


IMPORTER = Importer(NAME, "vLLM bench throughput: one JSON object, rates only", detects, parse)
