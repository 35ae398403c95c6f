"""InferenceMAX (InferenceX) results of one point: ``agg_NAME.json``, and its studies in the same units.

The aggregate takes vLLM's figures, drops ``_ms`` from their names and divides them by 1000: seconds without a
suffix. ``*_intvty`` is 1000 over a TPOT in ms: of p99 the slow end, of std no spread, so none has a column.
Rates are per GPU; they become rates of the server where one node's ``tp`` is its number of GPUs. How many requests
succeeded is not in an aggregate, so failures are invisible and no such run is a result that could lead.
"""

from __future__ import annotations

from typing import Any

from warehouse import serving
from warehouse.importers.base import Given, Importer, Parsed, RecordError, Row, Run
from warehouse.importers.facts import SERVED, note_unused
from warehouse.importers.pick import first, number
from warehouse.importers.served import Document, documents, run_row
from warehouse.importers.serving_rows import engine_of
from warehouse.importers.source import JSON, Source
from warehouse.importers.values import compact, count, identity, shown, text

NAME = "inferencemax"
_AGGREGATE = {"tput_per_gpu", "conc"}
_STUDY = {"median_ttft", "total_output_tokens", "completed"}
_FLAGS = {"true": True, "false": False}


def fits(document: Document) -> bool:
    """Whether an object is an aggregate or a study: its latencies have no unit in their names."""
    bare = any(name in document for name in ("mean_ttft", "median_ttft", "mean_tpot", "median_tpot"))
    return bare and (document.keys() >= _AGGREGATE or document.keys() >= _STUDY)


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
                raise RecordError(
                    "an object without the figures of an aggregate (tput_per_gpu, conc, mean_ttft)"
                )
            parsed.run(Run(_run(document, given), place))
        except RecordError as error:
            parsed.refuse(place, str(error))
    note_unused(parsed, given, SERVED)
    return parsed


def _run(document: Document, given: Given) -> Row:
    rate, mode = None, None
    if document.get("request_rate") is not None:
        try:
            rate, mode = serving.request_rate(document["request_rate"])
        except ValueError as error:
            raise RecordError(str(error)) from None
    framework = text(document.get("framework"))
    completed, asked = count(document.get("completed")), count(document.get("num_prompts"))
    itl = _seconds(document, "mean_itl")
    row = {
        "serving_id": identity(NAME, document),
        "engine": engine_of(framework) or framework,
        "client": NAME,
        "model": text(first(document.get("model"), document.get("model_id"))),
        "device": text(first(document.get("hw"), document.get("device"))),
        "max_concurrency": count(first(document.get("conc"), document.get("max_concurrency"))),
        "request_rate_per_s": rate,
        "request_rate_mode": mode,
        "input_tokens_asked": count(document.get("isl")),
        "output_tokens_asked": count(document.get("osl")),
        "requests_asked": asked,
        "requests_completed": completed,
        "requests_failed": serving.failed_requests(asked=asked, completed=completed),
        "input_tokens": count(document.get("total_input_tokens")),
        "output_tokens": count(document.get("total_output_tokens")),
        "duration_s": serving.positive(number(document.get("duration"))),
        "requests_per_s": serving.positive(number(document.get("request_throughput"))),
        "goodput_per_s": serving.positive(number(document.get("request_goodput"))),
        "ttft_p50_ms": _seconds(document, "median_ttft", "p50_ttft"),
        "ttft_p99_ms": _seconds(document, "p99_ttft"),
        "ttft_mean_ms": _seconds(document, "mean_ttft"),
        "tpot_mean_ms": _seconds(document, "mean_tpot"),
        "tpot_p50_ms": _seconds(document, "median_tpot", "p50_tpot"),
        "itl_mean_ms": itl,
        "itl_unit": None if itl is None else "chunk",
        "e2e_mean_ms": _seconds(document, "mean_e2el"),
        "e2e_p50_ms": _seconds(document, "median_e2el", "p50_e2el"),
        "e2e_p99_ms": _seconds(document, "p99_e2el"),
        **_server_rates(document),
    }
    reasons = [] if row["output_tokens_per_s"] else ["rates are per GPU, and of how many is not in the file"]
    row["server_args_json"] = compact({key: document[key] for key in _SERVER if key in document})
    extra = {key: value for key, value in document.items() if key not in _TAKEN and key not in _SERVER}
    return run_row(row, extra, given, reasons)


_SERVER = (
    "image", "precision", "spec_decoding", "tp", "pp", "ep", "dp_attention", "disagg", "is_multinode",
)  # fmt: skip
_TAKEN = {
    "framework", "model", "model_id", "hw", "device", "conc", "max_concurrency", "request_rate", "isl", "osl",
    "num_prompts", "completed", "total_input_tokens", "total_output_tokens", "duration", "request_throughput",
    "request_goodput", "median_ttft", "p99_ttft", "mean_ttft", "mean_tpot", "median_tpot", "mean_itl", "mean_e2el",
    "median_e2el", "p99_e2el", "output_throughput", "total_token_throughput",
}  # fmt: skip


def _server_rates(document: Document) -> Row:
    """Tokens a second of the whole server: as they stand, else per GPU times the GPUs."""
    gpus = _gpus(document)

    def rate(whole: str, per_gpu: str) -> float | None:
        found = serving.positive(number(document.get(whole)))
        each = serving.positive(number(document.get(per_gpu)))
        return found if found is not None or each is None or gpus is None else each * gpus

    return {
        "output_tokens_per_s": rate("output_throughput", "output_tput_per_gpu"),
        "total_tokens_per_s": rate("total_token_throughput", "tput_per_gpu"),
    }


def _gpus(document: Document) -> int | None:
    """The GPUs that the rates were divided by; None for several nodes, split engines and pipelines."""
    split = [_flag(document, name) for name in ("is_multinode", "disagg")]
    if any(split) or count(document.get("pp")) not in {None, 1}:
        return None
    return count(document.get("tp")) or None


def _flag(document: Document, name: str) -> bool:
    """A truth value, which the file may write as text.

    Raises:
        RecordError: it is neither.
    """
    value: Any = document.get(name)
    if value is None or value == "":
        return False
    found = _FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise RecordError(f"{name} is {shown(value)}, neither true nor false")
    return found


def _seconds(document: Document, *names: str) -> float | None:
    """The first of the named times, in ms."""
    found = serving.positive(number(first(*(document.get(name) for name in names))))
    return None if found is None else found * 1e3


IMPORTER = Importer(NAME, "InferenceMAX / InferenceX aggregates (JSON, in seconds)", detects, parse)
