"""Values out of foreign JSON: a number, a count, a text, or nothing. None of them raises."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_LARGEST = 2**63 - 1


def number(value: Any) -> float | None:
    """Return a finite number; also one that is written as text. A truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:
    """Return a whole number from 0 that fits a column; 200.0 and '200' are the count 200."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= _LARGEST else None
    found = number(value)
    return int(found) if found is not None and found.is_integer() and 0 <= found < _LARGEST else None


def text(value: Any) -> str | None:
    """Return a text that says something, without halves of surrogate pairs: no column can hold those."""
    return value.strip().encode("utf-8", "replace").decode() or None if isinstance(value, str) else None


def at(document: Any, *path: str | int) -> Any:
    """Return what stands at a path of keys and list positions; None where a step is missing."""
    for step in path:
        if isinstance(document, Mapping) and isinstance(step, str):
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int) and 0 <= step < len(document):
            document = document[step]
        else:
            return None
    return document


def first(*values: Any) -> Any:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


def whole(mean: float | None, members: int | None) -> int | None:
    """Return the sum behind a mean of counts; None where mean times members is no whole number."""
    if mean is None or not members:
        return None
    found = mean * members
    near = round(found)
    return near if math.isclose(found, near, rel_tol=1e-9, abs_tol=1e-6) and near >= 0 else None


def canonical(value: Any) -> str:
    """Return JSON that is the same for equal values, whatever order their keys came in; NaN becomes null."""
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value
