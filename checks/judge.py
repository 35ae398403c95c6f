"""Judge the rows of a rule with Great Expectations, and keep "false" apart from "could not be judged".

A result that says ``success`` proves nothing by itself: on no rows, on NULLs, and when a metric raised, the
built-in expectations pass or fail for reasons that have nothing to do with the data. What happened is read
from ``exception_info``, ``element_count``, ``missing_count`` and the rows that were named.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pandas as pd

from checks.model import Finding, Rule, RuleResult, Status

# Read by Great Expectations when it is imported. This release sends nothing; older ones did.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

SHOWN_TEXT = 240  # characters of an exception's text that a finding prints

Validate = Callable[[pd.DataFrame, Rule], list[dict[str, Any]]]


def make_validator() -> Validate:
    """Return a function that validates a frame against a rule and gives the results as plain dictionaries.

    The context lives in memory: no folder, no network, no progress bar.
    """
    with warnings.catch_warnings(), _no_collection():
        warnings.simplefilter("ignore", DeprecationWarning)  # the library imports a deprecated module
        import great_expectations as gx  # noqa: PLC0415  (seconds to import)
        from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

        from checks.expectations import RowsArePresent, translate  # noqa: PLC0415

    logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("views").add_dataframe_asset("rows")
    definition = asset.add_batch_definition_whole_dataframe("all")

    def validate(frame: pd.DataFrame, rule: Rule) -> list[dict[str, Any]]:
        suite = gx.ExpectationSuite(name=rule.id)
        suite.add_expectation(RowsArePresent())
        seen: set[str] = set()
        for expectation in rule.expectations:
            for translated in translate(expectation):
                key = repr(sorted(translated.configuration.kwargs.items(), key=str))
                key = f"{type(translated).__name__} {key}"
                if key not in seen:
                    seen.add(key)
                    suite.add_expectation(translated)
        batch = definition.get_batch(batch_parameters={"dataframe": frame})
        outcome = batch.validate(suite, result_format="COMPLETE")
        return [cast("dict[str, Any]", r.to_json_dict()) for r in outcome.results]

    return validate


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage inside, and leave what was made out of later collections: modules stay to the end.

    Great Expectations makes so many objects that walking them again and again costs a sixth of a run of the gate.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def judge(rule: Rule, frame: pd.DataFrame, validate: Validate) -> RuleResult:
    """Judge ``frame``, the rows of the rule's query.

    Args:
        rule: What must be true of each row.
        frame: The rows; the index is replaced by 0, 1, ...
        validate: From :func:`make_validator`.

    Returns:
        Every row that does not hold, with whether it is false or could not be judged.

    """
    started = time.perf_counter()
    frame = frame.reset_index(drop=True)
    absent = sorted({c for e in rule.expectations for c in e.columns} - set(frame.columns))
    if absent:
        return broken(rule, f"the query returns no column {', '.join(absent)}")
    if frame.empty:
        empty = () if rule.on_empty is Status.HOLDS else (Finding(rule.on_empty, rule.empty),)
        return RuleResult(rule, 0, empty, time.perf_counter() - started)
    infinite = [
        Finding(Status.UNJUDGED, f"{_line(rule, row)} [{column} is not finite]", row)
        for column in {c: None for e in rule.expectations for c in e.columns}
        for row in _rows(frame[_infinite(frame[column])])
    ]
    if infinite:
        return RuleResult(rule, len(frame), tuple(infinite), time.perf_counter() - started)
    results = validate(frame, rule)
    if not results:
        return broken(rule, "no expectation was evaluated")
    findings = [finding for result in results for finding in _findings(rule, frame, result)]
    unique = {(f.status, f.line): f for f in findings}
    return RuleResult(rule, len(frame), tuple(unique.values()), time.perf_counter() - started)


def broken(rule: Rule, why: str) -> RuleResult:
    """Return the result of a rule whose query or expectation could not be evaluated."""
    return RuleResult(rule, 0, (Finding(Status.UNJUDGED, why),))


def _findings(rule: Rule, frame: pd.DataFrame, result: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what one expectation's result says about the rows."""
    config = result["expectation_config"]
    name, kwargs = config["type"], config["kwargs"]
    raised = list(_exceptions(result.get("exception_info") or {}))
    if raised:
        yield Finding(Status.UNJUDGED, f"{name} broke: {raised[0]}")
        return
    detail = result.get("result") or {}
    if "element_count" in detail and not detail["element_count"]:
        yield Finding(Status.UNJUDGED, f"{name} looked at no value")
        return
    indices = [int(i) for i in detail.get("unexpected_index_list") or []]
    if name == "values_are_known":
        for row in _rows(frame.loc[indices]):
            yield Finding(Status.UNJUDGED, f"{_line(rule, row)} [{kwargs['column']} is unknown]", row)
        if not result["success"] and not indices:
            yield Finding(Status.UNJUDGED, f"{kwargs['column']} is unknown in some row")
        return
    for row in _rows(frame.loc[indices]):
        yield Finding(rule.on_failure, _line(rule, row), row)
    if not result["success"] and not indices and not detail.get("missing_count"):
        yield Finding(Status.UNJUDGED, f"{name} failed and names no row")


def _exceptions(info: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of each exception; the dictionary is flat, or keyed by the metric that raised."""
    entries = [info] if "raised_exception" in info else [v for v in info.values() if isinstance(v, Mapping)]
    for entry in entries:
        if entry.get("raised_exception"):
            text = " ".join(str(entry.get("exception_message") or "no message").split())
            yield text[:SHOWN_TEXT]


def _infinite(column: pd.Series[Any]) -> list[bool]:
    return [isinstance(v, float) and math.isinf(v) for v in column]


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values; NULL is None."""
    records = cast("list[dict[str, Any]]", frame.to_dict(orient="records"))
    return [{k: plain(v) for k, v in record.items()} for record in records]


def plain(value: Any) -> Any:
    """Return a plain Python value for a pandas or numpy one; None for NaN, NaT and NULL."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if value is None or pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


class _Shown(dict[str, Any]):
    """Values as a line shows them: None as 'unknown', floats with four significant digits."""

    def __missing__(self, key: str) -> str:
        return f"<no column {key}>"


def _line(rule: Rule, row: Mapping[str, Any]) -> str:
    """Return the rule's line for ``row``."""
    return rule.line.format_map(_Shown({k: _shown(v) for k, v in row.items()}))


def _shown(value: Any) -> Any:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else value
