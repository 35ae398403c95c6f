"""llmperf: a flat summary of a run, and a list with one object a request; seconds throughout.

Its inter-token latency divides the whole latency, the first token's included, by the tokens: neither a gap nor a
TPOT, and kept beside the columns only. A request with an ``error_code`` (-100: "Output too few tokens") has times
that measure nothing. The list names neither model nor load, so it is a run of its own without rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.pick import at, number, whole
from warehouse.importers.served import Document, documents, request_table, run_row
from warehouse.importers.source import JSON, Source
from warehouse.importers.values import count, identity, shown, text

NAME = "llmperf"
_SUMMARY = {"results_ttft_s_mean", "num_concurrent_requests"}
_REQUEST = {"ttft_s", "end_to_end_latency_s", "error_code"}
_NO_TPOT = "llmperf's inter-token latency holds the first token's, so there is no TPOT"
_NO_LOAD = "a list of requests, without the duration and the load of their run"


def detects(source: Source) -> bool:
    """Whether a file is a summary or a list of requests."""
    return source.kind == JSON and (source.first.keys() >= _SUMMARY or source.first.keys() >= _REQUEST)


def parse(source: Source, given: Given) -> Parsed:
    """Return a run for each summary, and one for the requests of the file."""
    parsed = Parsed()
    requests: list[tuple[str, Document]] = []
    for place, document in documents(source, parsed):
        if document.keys() >= _REQUEST:
            requests.append((place, document))
            continue
        parsed.expect()
        try:
            if not document.keys() >= _SUMMARY:
                raise RecordError("neither a summary nor a request of llmperf")
            parsed.run(Run(_summary(document, given), place))
        except RecordError as error:
            parsed.refuse(place, str(error))
    if requests:
        parsed.expect(1 + len(requests))
        _individual(parsed, requests, given)
    note_unused(parsed, given, SERVED)
    return parsed


def _summary(document: Document, given: Given) -> Row:
    completed = count(document.get("results_num_completed_requests"))
    per_minute = serving.positive(number(document.get("results_num_completed_requests_per_min")))
    row = {
        "serving_id": identity(NAME, document),
        "client": NAME,
        "client_version": text(document.get("version")),
        "model": text(document.get("model")),
        "max_concurrency": count(document.get("num_concurrent_requests")),
        "input_tokens_asked": count(document.get("mean_input_tokens")),
        "output_tokens_asked": count(document.get("mean_output_tokens")),
        "requests_asked": count(document.get("results_num_requests_started")),
        "requests_completed": completed,
        "requests_failed": count(document.get("results_number_errors")),
        "input_tokens": _tokens(document, "input", completed),
        "output_tokens": _tokens(document, "output", completed),
        "output_tokens_per_s": serving.positive(
            number(document.get("results_mean_output_throughput_token_per_s"))
        ),
        "requests_per_s": None if per_minute is None else per_minute / 60,
        "ttft_p50_ms": _seconds(document, "ttft_s_quantiles_p50"),
        "ttft_p99_ms": _seconds(document, "ttft_s_quantiles_p99"),
        "ttft_mean_ms": _seconds(document, "ttft_s_mean"),
        "e2e_mean_ms": _seconds(document, "end_to_end_latency_s_mean"),
        "e2e_p50_ms": _seconds(document, "end_to_end_latency_s_quantiles_p50"),
        "e2e_p99_ms": _seconds(document, "end_to_end_latency_s_quantiles_p99"),
        "recorded_at": _time(document.get("timestamp")),
    }
    kept = ("name", "stddev_input_tokens", "stddev_output_tokens", "additional_sampling_params", "results_error_code_frequency", "results_inter_token_latency_s_mean")  # fmt: skip
    return run_row(row, {name: document.get(name) for name in kept}, given, [_NO_TPOT])


def _individual(parsed: Parsed, requests: Sequence[tuple[str, Document]], given: Given) -> None:
    """Add one run of all requests in the file; a request without a number of tokens is refused by itself."""
    rows: list[Row] = []
    for place, request in requests:
        try:
            rows.append(_request(len(rows), request))
        except RecordError as error:
            parsed.refuse(place, str(error))
    try:
        figures = serving.summarise(rows, None)
        row = {
            "serving_id": identity(NAME, {"requests": [request for _, request in requests]}, ["requests"]),
            "client": NAME,
            "requests_asked": len(requests),
            **figures,
            "requests_failed": len(requests) - figures["requests_completed"],
        }
        parsed.run(Run(run_row(row, {}, given, [_NO_LOAD]), requests[0][0], request_table(rows)))
    except RecordError as error:
        parsed.refuse(requests[0][0], str(error), records=1 + len(rows))


def _request(index: int, request: Document) -> Row:
    code = request.get("error_code")
    tokens = count(request.get("number_output_tokens"))
    if tokens is None and code is None:
        raise RecordError(f"number_output_tokens is {shown(request.get('number_output_tokens'))}")
    said = text(request.get("error_msg")) or f"error {shown(code)}"
    return serving.request_row(
        index,
        error=None if code is None else said,
        input_tokens=count(at(request, "number_input_tokens")),
        output_tokens=tokens,
        ttft_s=number(request.get("ttft_s")),
        latency_s=number(request.get("end_to_end_latency_s")),
        start_s=number(request.get("start_time")),
    )


def _seconds(document: Document, name: str) -> float | None:
    found = serving.positive(number(document.get(f"results_{name}")))
    return None if found is None else found * 1e3


def _tokens(document: Document, which: str, completed: int | None) -> int | None:
    return whole(number(document.get(f"results_number_{which}_tokens_mean")), completed)


def _time(seconds: Any) -> datetime | None:
    """A time in seconds since 1970; None where it is none."""
    value = number(seconds)
    try:
        return None if value is None or value <= 0 else datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        return None


IMPORTER = Importer(NAME, "llmperf: the summary of a run, or its individual responses (JSON)", detects, parse)
