"""vLLM ``bench serve`` and the older ``benchmark_serving.py``: one JSON object a run, several with --append-result.

All versions from early 2024 on: ``request_inthroughput`` (sic), ``request_goodput:`` with a colon, arrays that are
always there, only with --save-detailed, or in part. What ``--metadata`` adds are texts at the top level; they
stay in ``extra_json`` and never become a measurement. A sweep's ``summary.json`` is a list of the runs that also
stand in ``run=K.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.serving_detail import ARRAYS, OTHER_ARRAYS, read_detail
from warehouse.importers.serving_figures import Client, aggregates, figures
from warehouse.importers.serving_rows import each_record, engine_of, finish_row, rate_columns
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, canonical, identity, text

NAME = "vllm-serve"

_SWEEP_FILE = re.compile(r"summary\.json|run=\d+\.json")
_LATENCY = re.compile(r"(mean|median|std|p[\d.]+)_(ttft|tpot|itl|e2el)_ms")
_RESULTS = frozenset(
    {
        *("duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "rtfx"),
        *("request_throughput", "request_inthroughput", "request_goodput", "request_goodput:"),
        *("output_throughput", "input_throughput", "total_token_throughput"),
        *("max_output_tokens_per_s", "max_concurrent_requests"),
    }
)
# What the measurement itself wrote, whatever else a sweep or a user adds to the object.
_MEASURED = frozenset(
    {
        *("date", "backend", "endpoint_type", "model_id", "num_prompts", "request_rate", "max_concurrency"),
        *("duration", "completed", "failed", "total_input_tokens", "total_output_tokens", *ARRAYS),
    }
)
_PER_RUN = {"date", "run_number"}  # differ between two repeats of one point


def fits(record: Mapping[str, Any]) -> bool:
    """Whether an object is a run of this client: InferenceX's side study has the keys without ``_ms``, in seconds."""
    seconds = any(name in record for name in ("median_ttft", "p99_ttft", "median_e2el"))
    return {"duration", "completed", "num_prompts"} <= record.keys() and not seconds


def detects(source: Source) -> bool:
    """Whether the first object is a run of this client."""
    return fits(source.first)


def parse(source: Source, given: Given) -> Parsed:
    """A row of ``serving_runs`` for each object, and of ``serving_requests`` for each request that it lists."""
    parsed = Parsed()
    sweep = bool(_SWEEP_FILE.fullmatch(source.path.name))
    for place, record in each_record(source, parsed, fits):
        try:
            parsed.run(_run(record, place, parsed, given, sweep=sweep))
        except RecordError as error:
            parsed.refuse(place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


def _run(record: Mapping[str, Any], place: str, parsed: Parsed, given: Given, *, sweep: bool) -> Run:
    fields = Fields(record)
    # Before the requests are read: that empties the arrays. A sweep adds its settings to the summary's copy of
    # a run only, so there the measurement alone tells runs apart.
    serving_id = identity(NAME, _measured(record) if sweep else record, (*ARRAYS, *OTHER_ARRAYS))
    setup = {name: value for name, value in record.items() if _is_setup(name, value)}
    point = canonical(setup).decode()
    reasons = ["the date has no time zone"] if "date" in record else []
    duration = fields.positive("duration")
    client = _client(fields)
    backend = text(record.get("backend")) or text(
        record.get("endpoint_type")
    )  # not read: both stay in extra_json
    row = {
        "serving_id": serving_id,
        "engine": engine_of(backend),
        "client": "vllm bench serve" if "endpoint_type" in record else "vllm benchmark_serving",
        "model": fields.text("model_id"),
        "max_concurrency": fields.count("max_concurrency"),
        **rate_columns(fields),
        "goodput_per_s": fields.real("request_goodput", "request_goodput:"),
    }
    detail = read_detail(record, place, parsed, all_succeeded=client.failed == 0)
    made, unused = figures(client, detail, duration, reasons)
    row.update(made, duration_s=duration)
    finished = finish_row(row, fields, given, reasons, (*ARRAYS, *OTHER_ARRAYS), unused)
    return Run(finished, place, tuple(detail.tables), point)


def _client(fields: Fields) -> Client:
    inputs, outputs = fields.count("total_input_tokens"), fields.count("total_output_tokens")
    total = fields.real("total_token_throughput")
    input_rate, output_rate = fields.real("input_throughput"), fields.real("output_throughput")
    if total is None and input_rate is not None and output_rate is not None:
        total = input_rate + output_rate
    return Client(
        figures={
            "input_tokens": inputs,
            "output_tokens": outputs,
            "output_tokens_per_s": output_rate,
            "requests_per_s": fields.real("request_throughput", "request_inthroughput"),
            "total_tokens_per_s": total,
            **aggregates(fields, "e2el"),
        },
        completed=fields.count("completed"),
        asked=fields.count("num_prompts"),
        failed=fields.count("failed"),
        tokenless="total_output_tokens" not in fields.record,
    )


def _measured(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name in _MEASURED or _LATENCY.fullmatch(name)}


def _is_setup(name: str, value: Any) -> bool:
    measured = name in _RESULTS or _LATENCY.fullmatch(name) or isinstance(value, list)
    return not measured and name not in _PER_RUN


IMPORTER = Importer(NAME, "vLLM bench serve and benchmark_serving.py, all versions; sweeps", detects, parse)
