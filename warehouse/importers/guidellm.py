"""guidellm reports: one JSON object with a list of benchmarks, each a strategy at one load.

Versions differ in where things stand. 0.1 to 0.3: strategy in ``args``, counts in ``request_totals`` beside the
metrics. From 0.4: strategy in ``config``, counts in ``metrics.request_totals``, the version in ``metadata``.
``request_latency`` is in seconds, what ends in ``_ms`` is not. Groups without a member (``count`` 0) hold
zeros that are no measurement.

guidellm's ``time_per_output_token_ms`` is not taken over: 0.3 divides the time after the first token by all
tokens, 0.8 the time from the request's start. Its inter-token latency leaves the first token out in both, and
its mean weighs requests by their tokens, so it is kept as that, and TPOT comes from the requests alone. Where
the report kept every request, so do the other times.
"""

from __future__ import annotations

import re
from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.pick import at, first, integer, number
from warehouse.importers.served import documents, request_table, run_row
from warehouse.importers.source import JSON, Source
from warehouse.importers.values import canonical, count, identity, text

NAME = "guidellm"
# Strategies without a pace of their own: a stream's next request starts when its last one has ended.
_UNPACED = {"synchronous", "concurrent", "throughput"}
_ASKED = re.compile(r"\b(prompt_tokens|output_tokens)[\"']?\s*[=:]\s*(\d+)")
_FROM_REQUESTS = (
    "input_tokens", "output_tokens", "ttft_p50_ms", "ttft_p99_ms", "ttft_mean_ms", "tpot_mean_ms", "tpot_p50_ms",
    "e2e_mean_ms", "e2e_p50_ms", "e2e_p99_ms",
)  # fmt: skip
_NO_TPOT = "TPOT comes from single requests, which the report does not hold"


def detects(source: Source) -> bool:
    """Whether a file is a report of guidellm."""
    return (
        source.kind == JSON
        and at(source.first, "benchmarks", 0, "metrics", "requests_per_second") is not None
    )


def parse(source: Source, given: Given) -> Parsed:
    """Return a run for each benchmark, and the rows of the requests that the report kept."""
    parsed = Parsed()
    for place, report in documents(source, parsed):
        benchmarks = report.get("benchmarks")
        if not isinstance(benchmarks, list) or not benchmarks:
            parsed.expect()
            parsed.refuse(place, "an object without a list of benchmarks")
            continue
        version = text(at(report, "metadata", "guidellm_version"))
        if version is not None:
            parsed.versions[NAME] = version
        for index, benchmark in enumerate(benchmarks):
            here = f"{place}, benchmark {index}"
            requests = _requests(at(benchmark, "requests"), number(at(benchmark, "start_time")))
            parsed.expect(1 + len(requests))
            try:
                row = _run(report, benchmark, requests, given)
                parsed.run(Run(row, here, request_table(requests), configuration=_point(row)))
            except RecordError as error:
                parsed.refuse(here, str(error), records=1 + len(requests))
    note_unused(parsed, given, SERVED)
    return parsed


def _point(row: Row) -> str:
    """What two repeats of one load have in common."""
    names = ("model", "max_concurrency", "request_rate_per_s", "request_rate_mode", "input_tokens_asked", "output_tokens_asked")  # fmt: skip
    return repr([row.get(name) for name in names])


def _run(report: Any, benchmark: Any, requests: list[Row], given: Given) -> Row:
    metrics = at(benchmark, "metrics")
    totals = first(at(metrics, "request_totals"), at(benchmark, "request_totals"))
    if not isinstance(metrics, dict) or not isinstance(totals, dict):
        raise RecordError("the benchmark has no metrics, or no request_totals that say how many succeeded")
    completed = count(totals.get("successful"))
    answered = [row for row in requests if row["ok"]]
    empty = sum(row["error"] == serving.NO_TOKENS for row in requests)
    detailed = completed is not None and completed > 0 and len(answered) + empty == completed
    if detailed:
        completed = len(answered)
    itl = _stat(metrics, "inter_token_latency_ms")
    setup, extra = _setup(report, benchmark)
    row = {
        "serving_id": identity(NAME, benchmark),
        **setup,
        "requests_asked": count(totals.get("total")),
        "requests_completed": completed,
        "requests_failed": count(totals.get("errored")),
        "input_tokens": _sum(metrics, "prompt_token_count"),
        "output_tokens": _sum(metrics, "output_token_count"),
        "duration_s": serving.positive(number(at(benchmark, "duration"))),
        "output_tokens_per_s": _stat(metrics, "output_tokens_per_second"),
        "requests_per_s": _stat(metrics, "requests_per_second"),
        "total_tokens_per_s": _stat(metrics, "tokens_per_second"),
        "ttft_p50_ms": _stat(metrics, "time_to_first_token_ms", "p50"),
        "ttft_p99_ms": _stat(metrics, "time_to_first_token_ms", "p99"),
        "ttft_mean_ms": _stat(metrics, "time_to_first_token_ms"),
        "itl_mean_ms": itl,
        "itl_unit": None if itl is None else "token",
        "e2e_mean_ms": _stat(metrics, "request_latency", scale=1e3),
        "e2e_p50_ms": _stat(metrics, "request_latency", "p50", scale=1e3),
        "e2e_p99_ms": _stat(metrics, "request_latency", "p99", scale=1e3),
    }
    if detailed:  # what the report sums up holds the times of answers without a token too
        figures = serving.summarise(requests, None)
        row |= {name: figures[name] for name in _FROM_REQUESTS}
    return run_row(row, extra, given, [] if detailed else [_NO_TPOT])


def _setup(report: Any, benchmark: Any) -> tuple[Row, Row]:
    """What was asked for: columns, and what has none."""
    strategy = first(at(benchmark, "config", "strategy"), at(benchmark, "args", "strategy"))
    kind = text(first(at(strategy, "type_"), at(strategy, "kind")))
    rate, mode = None, None
    if kind in _UNPACED:
        mode = serving.RATE_INFINITE
    elif kind == serving.RATE_TRACE:
        mode = serving.RATE_TRACE
    elif (paced := serving.positive(number(at(strategy, "rate")))) is not None:
        rate, mode = paced, serving.RATE_FIXED
    data = first(
        at(report, "config", "spec", "data"),
        at(report, "args", "data"),
        at(benchmark, "request_loader", "data"),
    )
    asked = dict(_ASKED.findall(data if isinstance(data, str) else canonical(data).decode()))
    model = first(
        at(benchmark, "config", "backend", "model"),
        at(benchmark, "worker", "backend_model"),
        at(report, "args", "model"),
    )
    columns = {
        "client": NAME,
        "client_version": text(at(report, "metadata", "guidellm_version")),
        "model": text(model),
        "max_concurrency": 1 if kind == "synchronous" else count(at(strategy, "streams")),
        "request_rate_per_s": rate,
        "request_rate_mode": mode,
        "input_tokens_asked": integer(asked.get("prompt_tokens")),
        "output_tokens_asked": integer(asked.get("output_tokens")),
        "seed": count(
            first(at(report, "config", "spec", "seed", "value"), at(report, "args", "random_seed"))
        ),
    }
    extra = {
        "strategy": strategy,
        "incomplete": first(
            at(benchmark, "metrics", "request_totals", "incomplete"),
            at(benchmark, "request_totals", "incomplete"),
        ),
        "start_time": at(benchmark, "start_time"),
        "warmup_duration": at(benchmark, "warmup_duration"),
        "cooldown_duration": at(benchmark, "cooldown_duration"),
        "time_per_output_token_ms": at(benchmark, "metrics", "time_per_output_token_ms", "successful"),
    }
    return columns, extra


def _requests(groups: Any, start: float | None) -> list[Row]:
    """Rows of the requests that the report kept, in its order: successful, errored, incomplete."""
    rows: list[Row] = []
    for group, error in (("successful", None), ("errored", "errored"), ("incomplete", "incomplete")):
        members = at(groups, group)
        for request in members if isinstance(members, list) else ():
            began = number(first(at(request, "request_start_time"), at(request, "start_time")))
            said = text(first(at(request, "error"), at(request, "info", "error")))
            ttft = number(at(request, "time_to_first_token_ms"))
            rows.append(
                serving.request_row(
                    len(rows),
                    error=None if error is None else said or error,
                    input_tokens=count(at(request, "prompt_tokens")),
                    output_tokens=count(at(request, "output_tokens")),
                    ttft_s=None if ttft is None else ttft / 1e3,
                    latency_s=number(at(request, "request_latency")),
                    start_s=None if began is None or start is None else began - start,
                )
            )
    return rows


def _group(metrics: Any, name: str) -> Any:
    """The successful requests' distribution of a metric; None where it has no member."""
    group = at(metrics, name, "successful")
    return None if count(at(group, "count")) == 0 else group


def _sum(metrics: Any, name: str) -> int | None:
    return count(at(_group(metrics, name), "total_sum"))


def _stat(metrics: Any, name: str, which: str = "mean", scale: float = 1.0) -> float | None:
    group = _group(metrics, name)
    value = number(at(group, "mean") if which == "mean" else at(group, "percentiles", which))
    found = serving.positive(value)
    return None if found is None else found * scale


IMPORTER = Importer(NAME, "guidellm reports, 0.1 to 0.8 (JSON): a run for each strategy", detects, parse)
