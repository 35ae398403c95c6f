"""Rows of ``points`` from foreign tables: one figure of one contestant in one cell, never invented."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.importers.base import Row
from warehouse.importers.pick import number
from warehouse.importers.source import Source
from warehouse.importers.units import Measure
from warehouse.importers.values import compact, shown, text

NO_VALUE = "no value"
NOT_POSITIVE = "the value is not positive"

# Spellings of the engines in other people's tables -> contestant and house.
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", "tensorrtllm": "tensorrt-llm"}
# Spellings of number formats -> the lake's.
_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}


def engine(name: str) -> str:
    """Return the contestant that an engine's name stands for; another name as it is."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return _ENGINES.get(plain, name)


def precision(name: Any) -> str | None:
    """Return the lake's name of a number format: ``torch.bfloat16`` is bf16; another name as it is."""
    plain = (text(name) or "").removeprefix("torch.")
    return _PRECISIONS.get(plain, plain) or None


def figure(raw: Any, known: Measure) -> Row:
    """Return the columns of a value: ``metric``, ``value``, ``lower_is_better``, ``status``, ``reason``.

    What is missing or no number is NULL with its reason; zero and less are kept and refused.

    Args:
        raw: a number, or the text of a cell.
        known: what the value's unit makes of it.
    """
    row: Row = {"metric": known.metric, "lower_is_better": known.lower_is_better, "status": "unverified"}
    value = number(raw)
    if value is None:
        return row | {"value": None, "reason": _why_none(raw)}
    scaled = value * known.scale
    if not math.isfinite(scaled):
        return row | {"value": None, "reason": f"{shown(raw)} is too large for its unit"}
    if scaled <= 0:
        return row | {"value": scaled, "status": "refused", "reason": NOT_POSITIVE}
    return row | {"value": scaled, "reason": None}


def quantile(raw: Any, known: Measure) -> float | None:
    """Return a quantile beside a value in the lake's unit; None where it is no number over 0."""
    value = figure(raw, known)
    return value["value"] if value["status"] == "unverified" else None


def own_benchmark(source: Source) -> str:
    """Return the name of a table that says neither when nor on what it was measured.

    It holds a part of the content's hash, so that figures of two such tables never meet.
    """
    return f"{Path(source.name).stem} ({source.sha256[:8]})"


def cell_key(facts: Mapping[str, Any]) -> str | None:
    """Return what makes two figures comparable as one text; facts that are None are left out.

    Raises:
        RecordError: a fact is text that is no Unicode.
    """
    return compact({name: value for name, value in facts.items() if value is not None})


def _why_none(raw: Any) -> str:
    written = "" if raw is None else str(raw).strip().lower() if isinstance(raw, str | float) else shown(raw)
    if written.lstrip("+-") in {"", "nan", "inf", "infinity"}:
        return written or NO_VALUE
    return f"{shown(raw)} is no number"
