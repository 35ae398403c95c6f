"""A study's table as JSON: one cell, and what each engine did in it. The form to write down figures by hand.

``{"cell": {"model", "input_len", "output_len", "max_concurrency", ...}, "contestants": [{"framework", "completed",
"duration_s", "total_input_tokens", "total_output_tokens", "output_throughput", "request_throughput", ...}]}``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.serving_detail import Detail
from warehouse.importers.serving_figures import Client, aggregates, figures
from warehouse.importers.serving_rows import UNKNOWN, finish_row, rate_columns, refuse_item
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, canonical, identity

NAME = "served-cells"


def fits(record: Mapping[str, Any]) -> bool:
    """Whether an object is a cell with its contestants."""
    return isinstance(record.get("cell"), dict) and isinstance(record.get("contestants"), list)


def detects(source: Source) -> bool:
    """Whether the first object is a cell whose contestants are served engines."""
    contestants = source.first["contestants"] if fits(source.first) else []
    return any(isinstance(contestant, dict) and "framework" in contestant for contestant in contestants[:1])


def parse(source: Source, given: Given) -> Parsed:
    """A row of ``serving_runs`` for each contestant of each cell."""
    parsed = Parsed()
    for item in source.items:
        if isinstance(item.value, dict) and fits(item.value):
            contestants = item.value["contestants"]
            parsed.expect(len(contestants))
            for number, contestant in enumerate(contestants, start=1):
                place = f"{item.place}, contestant {number}"
                try:
                    parsed.run(_run(item.value["cell"], contestant, place, given))
                except RecordError as error:
                    parsed.refuse(place, str(error))
        else:
            parsed.expect()
            refuse_item(item, parsed, fits)
    note_unused(parsed, given, SERVED)
    return parsed


def _run(cell: Mapping[str, Any], contestant: Any, place: str, given: Given) -> Run:
    if not isinstance(contestant, dict):
        raise RecordError("a contestant that is no object")
    if "framework" not in contestant:
        raise RecordError("a contestant without a framework")
    both = {**cell, **contestant}
    fields = Fields(both)
    reasons: list[str] = []
    duration = fields.positive("duration_s")
    client = Client(
        figures={
            "input_tokens": fields.count("total_input_tokens"),
            "output_tokens": fields.count("total_output_tokens"),
            "output_tokens_per_s": fields.real("output_throughput"),
            "requests_per_s": fields.real("request_throughput"),
            **aggregates(fields, "e2e"),
        },
        completed=fields.count("completed"),
        asked=fields.count("num_prompts"),
        failed=fields.count("failed"),
    )
    row: Row = {
        "serving_id": identity(NAME, {"cell": dict(cell), "contestant": contestant}),
        "engine": fields.text("framework"),
        "engine_version": fields.text("version"),
        "client": fields.text("client") or UNKNOWN,
        "model": fields.text("model"),
        "device": fields.text("device"),
        "max_concurrency": fields.count("max_concurrency"),
        "input_tokens_asked": fields.count("input_len"),
        "output_tokens_asked": fields.count("output_len"),
        **rate_columns(fields),
    }
    made, unused = figures(client, Detail(), duration, reasons)
    row.update(made, duration_s=duration)
    finished = finish_row(row, fields, given, reasons, unused=unused)
    return Run(finished, place, configuration=canonical([dict(cell), row["engine"]]).decode())


IMPORTER = Importer(NAME, "a study's table as JSON: one cell, figures of several engines", detects, parse)
