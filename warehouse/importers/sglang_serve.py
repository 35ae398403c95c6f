"""SGLang ``bench_serving``: JSON lines, one appended by every run (``--output-file``).

A line has no date, no number of prompts and no count of failures; the model and the version stand in
``server_info``, where the version of the client writes that. ``request_rate`` is a number, a bare ``Infinity`` or
``trace``. When nothing completed the mean latency is a bare ``NaN`` while TTFT becomes 0.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.serving_detail import ARRAYS, OTHER_ARRAYS, read_detail
from warehouse.importers.serving_figures import Client, aggregates, figures
from warehouse.importers.serving_rows import each_record, engine_of, finish_row, rate_columns
from warehouse.importers.source import Source
from warehouse.importers.values import Fields, canonical, compact, count, identity, text

NAME = "sglang-serve"

_SETUP = (
    *("tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len"),
    *("random_input_len", "random_output_len", "random_range_ratio", "server_info"),
)
_RETOKENIZED = 0.1  # relative: counts of output tokens that differ by more are said so
_LOAD_FORMATS = {"dummy": "dummy"}  # what a load format says about the weights; the others say nothing


def fits(record: Mapping[str, Any]) -> bool:
    """Whether an object is a run of this client: no number of prompts, and a latency spelt as only it does."""
    own = {"total_output_tokens_retokenized", "mean_e2e_latency_ms", "median_e2e_latency_ms"}
    return (
        {"duration", "completed"} <= record.keys()
        and "num_prompts" not in record
        and bool(own & record.keys())
    )


def detects(source: Source) -> bool:
    """Whether the first object is a run of this client."""
    return fits(source.first)


def parse(source: Source, given: Given) -> Parsed:
    """A row of ``serving_runs`` for each line, and of ``serving_requests`` for each request that it lists."""
    parsed = Parsed()
    for place, record in each_record(source, parsed, fits):
        try:
            parsed.run(_run(record, place, parsed, given))
        except RecordError as error:
            parsed.refuse(place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


def _run(record: Mapping[str, Any], place: str, parsed: Parsed, given: Given) -> Run:
    fields = Fields(record)
    serving_id = identity(NAME, record, (*ARRAYS, *OTHER_ARRAYS))  # before the arrays are emptied
    point = canonical({name: record.get(name) for name in _SETUP}).decode()
    reasons: list[str] = []
    duration = fields.positive("duration")
    client = _client(fields)
    row: Row = {
        "serving_id": serving_id,
        "engine": engine_of(text(record.get("backend"))),
        "client": "sglang bench_serving",
        "max_concurrency": fields.count("max_concurrency"),
        **rate_columns(fields),
        **_lengths(fields),
        **_server(fields, reasons),
    }
    detail = read_detail(record, place, parsed)
    made, unused = figures(client, detail, duration, reasons)
    row.update(made, duration_s=duration)
    _compare_counts(client, fields, reasons)
    finished = finish_row(row, fields, given, reasons, (*ARRAYS, *OTHER_ARRAYS), unused)
    return Run(finished, place, tuple(detail.tables), point)


def _client(fields: Fields) -> Client:
    return Client(
        figures={
            "input_tokens": fields.count("total_input_tokens"),
            "output_tokens": fields.count("total_output_tokens"),
            "output_tokens_per_s": fields.real("output_throughput"),
            "requests_per_s": fields.real("request_throughput"),
            "total_tokens_per_s": fields.real("total_throughput"),
            **aggregates(fields, "e2e_latency"),
        },
        completed=fields.count("completed"),
    )


def _lengths(fields: Fields) -> Row:
    """What was asked: exact only with a range ratio of 1, since this client draws from [ratio x length, length]."""
    if not (text(fields.record.get("dataset_name")) or "").startswith("random"):
        return {}
    return {
        "input_tokens_asked": fields.count("random_input_len"),
        "output_tokens_asked": fields.count("random_output_len"),
    }


def _server(fields: Fields, reasons: list[str]) -> Row:
    """Model, version, weights and prefix cache, as the server told the client."""
    info = fields.raw("server_info")
    row: Row = {}
    if not isinstance(info, dict):
        return row
    row["server_args_json"] = compact(info)
    row["model"] = text(info.get("served_model_name")) or text(info.get("model_path"))
    row["weights"] = _LOAD_FORMATS.get(text(info.get("load_format")) or "")
    if isinstance(info.get("disable_radix_cache"), bool):
        row["prefix_cache"] = "off" if info["disable_radix_cache"] else "on"
    versions = _versions(info)
    if len(versions) == 1:
        row["engine_version"] = versions[0]
    elif versions:
        reasons.append(f"engine_version: its servers differ ({', '.join(versions)})")
    return row


def _versions(info: Mapping[str, Any]) -> list[str]:
    """Versions of the server, or of those that split prefill and decode between them, each once."""
    servers = [info]
    for part in ("prefill", "decode"):
        listed = info.get(part)
        servers += (
            [server for server in listed if isinstance(server, dict)] if isinstance(listed, list) else []
        )
    return sorted({version for server in servers if (version := text(server.get("version")))})


def _compare_counts(client: Client, fields: Fields, reasons: list[str]) -> None:
    counted, again = (
        client.figures["output_tokens"],
        count(fields.record.get("total_output_tokens_retokenized")),
    )
    if counted and again is not None and abs(again - counted) > _RETOKENIZED * counted:
        reasons.append(f"output tokens are {counted} as counted and {again} as tokenised again")


IMPORTER = Importer(NAME, "SGLang bench_serving: JSON lines, appended by every run", detects, parse)
