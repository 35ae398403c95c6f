"""inference-perf's lifecycle reports: one JSON object a stage (or the summary of all), what the client measured.

Everything is in seconds, percentiles are keys such as ``median``, ``p99`` and ``p99.9``. The Prometheus reports
beside them are the server's own counters over another window with other counts, and are refused. Times per output
token are taken between chunks, so they are kept as gaps between chunks, and TPOT is unknown.
"""

from __future__ import annotations

from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.pick import at, first, number, whole
from warehouse.importers.served import documents, run_row
from warehouse.importers.source import JSON, Source
from warehouse.importers.values import count, identity

NAME = "inference-perf"
_KEYS = {"load_summary", "successes", "failures"}
_NO_TPOT = "the report has gaps between chunks and no time per output token"
_ALL_STAGES = "the summary of all stages has no load of its own"


def detects(source: Source) -> bool:
    """Whether a file is a report of inference-perf, of the client or of the server."""
    return source.kind == JSON and source.first.keys() >= _KEYS


def parse(source: Source, given: Given) -> Parsed:
    """Return a run for each report; the server's own are refused."""
    parsed = Parsed()
    for place, report in documents(source, parsed):
        parsed.expect()
        try:
            parsed.run(Run(_run(report, given), place))
        except RecordError as error:
            parsed.refuse(place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


def _run(report: Any, given: Given) -> Row:
    latency = at(report, "successes", "latency")
    if not isinstance(latency, dict):
        raise RecordError(
            "a report without the client's latencies (those of the server's Prometheus metrics count other "
            "requests); import the lifecycle report"
        )
    successes, load = at(report, "successes"), at(report, "load_summary")
    completed = count(at(successes, "count"))
    asked_rate = number(at(load, "requested_rate"))
    rate, mode = serving.request_rate(asked_rate) if serving.positive(asked_rate) else (None, None)
    gap = _seconds(latency, "inter_token_latency", "mean")
    row = {
        "serving_id": identity(NAME, report),
        "client": NAME,
        "max_concurrency": count(at(load, "concurrency")),
        "request_rate_per_s": rate,
        "request_rate_mode": mode,
        "requests_asked": count(at(load, "count")),
        "requests_completed": completed,
        "requests_failed": count(at(report, "failures", "count")),
        "input_tokens": _tokens(successes, completed, "prompt_tokens", "prompt_len"),
        "output_tokens": _tokens(successes, completed, "output_tokens", "output_len"),
        "duration_s": serving.positive(number(report.get("benchmark_time_seconds"))),
        "output_tokens_per_s": _rate(successes, "output_tokens_per_sec"),
        "requests_per_s": _rate(successes, "requests_per_sec"),
        "total_tokens_per_s": _rate(successes, "total_tokens_per_sec"),
        "ttft_p50_ms": _seconds(latency, "time_to_first_token", "median", "p50"),
        "ttft_p99_ms": _seconds(latency, "time_to_first_token", "p99"),
        "ttft_mean_ms": _seconds(latency, "time_to_first_token", "mean"),
        "itl_mean_ms": gap,
        "itl_unit": None if gap is None else "chunk",
        "e2e_mean_ms": _seconds(latency, "request_latency", "mean"),
        "e2e_p50_ms": _seconds(latency, "request_latency", "median", "p50"),
        "e2e_p99_ms": _seconds(latency, "request_latency", "p99"),
    }
    extra = {
        "achieved_rate": at(load, "achieved_rate"),
        "send_duration": at(load, "send_duration"),
        "schedule_delay": first(at(load, "schedule_delay"), at(load, "schedule_accuracy")),
        "time_per_output_token": latency.get("time_per_output_token"),
        "normalized_time_per_output_token": latency.get("normalized_time_per_output_token"),
    }
    return run_row(row, extra, given, [_NO_TPOT] if asked_rate else [_NO_TPOT, _ALL_STAGES])


def _seconds(latency: Any, name: str, *which: str) -> float | None:
    """A statistic of a latency in ms; the first of ``which`` that the report has."""
    found = serving.positive(number(first(*(at(latency, name, key) for key in which))))
    return None if found is None else found * 1e3


def _rate(successes: Any, name: str) -> float | None:
    return serving.positive(number(at(successes, "throughput", name)))


def _tokens(successes: Any, completed: int | None, *names: str) -> int | None:
    """The total of a length: as reported, else the mean times the successes where that is a whole number."""
    lengths = first(*(at(successes, name) for name in names))
    return first(count(at(lengths, "total")), whole(number(at(lengths, "mean")), completed))


IMPORTER = Importer(NAME, "inference-perf's lifecycle reports of the client (JSON)", detects, parse)
