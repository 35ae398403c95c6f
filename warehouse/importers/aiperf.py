"""AIPerf and its predecessor genai-perf: one JSON object a run, each metric an object with its unit and statistics.

Counts are means of one value, so written as floats. ``inter_token_latency`` is ``(e2e - TTFT) / (n - 1)`` of each
request: the lake's TPOT. Gaps between chunks are AIPerf's ``inter_chunk_latency``. ``error_request_count`` is null
both where nothing failed and where nobody counted, so the list of errors decides. Timestamps in nanoseconds are
written as floats that have lost them. ``input_config`` changes from version to version; what was asked is looked
for in the places it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.pick import at, first, number, whole
from warehouse.importers.served import Document, documents, run_row
from warehouse.importers.source import JSON, Source
from warehouse.importers.units import measure
from warehouse.importers.values import count, identity, shown, text

NAME = "aiperf"
GENAI = "genai-perf"
_MARKS = ("request_throughput", "request_latency", "output_token_throughput")
_OLD = (
    "perf_analyzer",
    "artifact_dir",
    "service_kind",
    "backend",
    "subcommand",
)  # of genai-perf's input_config
_NO_COUNT = "the file does not say how many requests succeeded"


def fits(document: Document) -> bool:
    """Whether an object has metrics as these tools write them."""
    metrics = [document.get(name) for name in _MARKS]
    return any(isinstance(metric, dict) and {"unit", "avg"} <= metric.keys() for metric in metrics)


def detects(source: Source) -> bool:
    """Whether a file holds such an object."""
    return source.kind == JSON and fits(source.first)


def parse(source: Source, given: Given) -> Parsed:
    """Return a run for each object."""
    parsed = Parsed()
    for place, document in documents(source, parsed):
        parsed.expect()
        try:
            if not fits(document):
                raise RecordError("an object without metrics that have a unit and an avg")
            parsed.run(Run(_run(document, given), place))
        except RecordError as error:
            parsed.refuse(place, str(error))
        if version := text(document.get("aiperf_version")):
            parsed.versions[NAME] = version
    note_unused(parsed, given, SERVED)
    return parsed


def _run(document: Document, given: Given) -> Row:
    config = document.get("input_config")
    completed = count(at(document, "request_count", "avg"))
    chunks = _ms(document, "inter_chunk_latency", "avg")
    asked = _load(config)
    row: Row = {
        "serving_id": identity(NAME, document),
        "client": GENAI if _is_genai(config) else NAME,
        "client_version": text(document.get("aiperf_version")),
        "model": _model(config),
        **asked,
        "requests_completed": completed,
        "requests_failed": _failed(document),
        "input_tokens": _tokens(document, "total_isl", "input_sequence_length", completed),
        "output_tokens": _tokens(document, "total_osl", "output_sequence_length", completed),
        "duration_s": _seconds(document, "benchmark_duration"),
        "output_tokens_per_s": _rate(document, "output_token_throughput", "tokens_per_s"),
        "requests_per_s": _rate(document, "request_throughput", "requests_per_s"),
        "total_tokens_per_s": _rate(document, "total_token_throughput", "tokens_per_s"),
        "ttft_p50_ms": _ms(document, "time_to_first_token", "p50"),
        "ttft_p99_ms": _ms(document, "time_to_first_token", "p99"),
        "ttft_mean_ms": _ms(document, "time_to_first_token", "avg"),
        "tpot_mean_ms": _ms(document, "inter_token_latency", "avg"),
        "tpot_p50_ms": _ms(document, "inter_token_latency", "p50"),
        "itl_mean_ms": chunks,
        "itl_unit": None if chunks is None else "chunk",
        "e2e_mean_ms": _ms(document, "request_latency", "avg"),
        "e2e_p50_ms": _ms(document, "request_latency", "p50"),
        "e2e_p99_ms": _ms(document, "request_latency", "p99"),
        "seed": count(first(at(document, "run_info", "random_seed"), at(config, "input", "random_seed"))),
    }
    if document.get("was_cancelled") is True:
        row |= {"status": "unusable", "reason": "the run was cancelled before its end"}
    if document.get("is_complete") is False:
        why = text(document.get("incomplete_reason")) or "without a reason"
        row |= {"status": "unusable", "reason": f"the run did not finish: {why}"}
    reasons = [*_odd_units(document), *([_NO_COUNT] if completed is None else [])]
    extra = {
        "input_config": config,
        "error_summary": document.get("error_summary"),
        "start_time": document.get("start_time"),
        "end_time": document.get("end_time"),
        "goodput": document.get("goodput"),
        "output_token_throughput_per_user": document.get("output_token_throughput_per_user"),
    }
    return run_row(row, extra, given, reasons)


def _is_genai(config: Any) -> bool:
    return isinstance(config, dict) and "loadgen" not in config and any(key in config for key in _OLD)


def _model(config: Any) -> str | None:
    """The one model that was driven; several are none."""
    names = first(
        at(config, "endpoint", "model_names"),
        at(config, "model_names"),
        at(config, "model"),
        at(config, "models"),
    )
    if isinstance(names, list):
        names = names[0] if len(names) == 1 else None
    return text(at(names, "name") if isinstance(names, dict) else names)


def _load(config: Any) -> Row:
    """Concurrency, rate and number of requests that were asked for."""
    places = list(_loads(config))
    concurrency = first(*(count(at(place, "concurrency")) for place in places))
    rate = first(*(serving.positive(number(first(at(p, "request_rate"), at(p, "rate")))) for p in places))
    return {
        "max_concurrency": concurrency,
        "request_rate_per_s": rate,
        "request_rate_mode": serving.RATE_FIXED if rate is not None else None,
        "requests_asked": first(*(count(at(place, "request_count")) for place in places)),
    }


def _loads(config: Any) -> Iterator[Any]:
    """The places in which versions keep the load: AIPerf's, its phases', genai-perf's, and its older flat ones."""
    yield at(config, "loadgen")
    yield at(config, "profiling")
    phases = at(config, "phases")
    for phase in phases if isinstance(phases, list) else ():
        if at(phase, "name") == "profiling":
            yield phase
    yield at(config, "perf_analyzer", "stimulus")
    yield config


def _failed(document: Document) -> int | None:
    """Failed requests: counted, else those of the list of errors; None where the file has neither."""
    counted = count(at(document, "error_request_count", "avg"))
    if counted is not None:
        return counted
    errors = document.get("error_summary")
    numbers = [count(at(error, "count")) for error in errors] if isinstance(errors, list) else [None]
    return None if None in numbers else sum(n for n in numbers if n is not None)


def _tokens(document: Document, total: str, length: str, completed: int | None) -> int | None:
    mean = number(at(document, length, "avg"))
    return first(count(at(document, total, "avg")), whole(mean, completed))


def _scaled(document: Document, name: str, which: str, metric: str) -> float | None:
    """A statistic in the lake's unit of ``metric``; None where the metric's own unit is none of that kind."""
    known = measure(text(at(document, name, "unit")))
    value = serving.positive(number(at(document, name, which)))
    if value is None or known is None or known.metric != metric:
        return None
    return serving.positive(value * known.scale)


def _ms(document: Document, name: str, which: str) -> float | None:
    found = _scaled(document, name, which, "time_us")
    return None if found is None else found / 1e3


def _seconds(document: Document, name: str) -> float | None:
    found = _scaled(document, name, "avg", "time_us")
    return None if found is None else found / 1e6


def _rate(document: Document, name: str, metric: str) -> float | None:
    return _scaled(document, name, "avg", metric)


_KINDS = {
    "time_to_first_token": "time_us", "inter_token_latency": "time_us", "inter_chunk_latency": "time_us",
    "request_latency": "time_us", "benchmark_duration": "time_us", "output_token_throughput": "tokens_per_s",
    "total_token_throughput": "tokens_per_s", "request_throughput": "requests_per_s",
}  # fmt: skip


def _odd_units(document: Document) -> list[str]:
    """Why metrics with a value became NULL."""
    return [
        f"{name} is in {shown(at(document, name, 'unit'))}, no unit of it that is known"
        for name in _KINDS
        if serving.positive(number(at(document, name, "avg"))) is not None
        and _scaled(document, name, "avg", _KINDS[name]) is None
    ]


IMPORTER = Importer(NAME, "AIPerf and genai-perf: the aggregate of a run (JSON)", detects, parse)
