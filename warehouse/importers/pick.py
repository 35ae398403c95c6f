"""Ways into foreign documents that change from version to version: paths, and figures written as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from warehouse.importers.values import count, real

T = TypeVar("T")


def number(value: Any) -> float | None:
    """Return a finite number, also one that is written as text; None for everything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return real(value)


def integer(value: Any) -> int | None:
    """Return a whole number from 0, also one that is written as text (``'128'``, ``'128.0'``)."""
    return count(number(value) if isinstance(value, str) else value)


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


def first(*values: T | None) -> T | None:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


def whole(mean: float | None, members: int | None) -> int | None:
    """Return the sum behind a mean of counts; None where mean times members is no whole number."""
    if mean is None or not members or mean < 0:
        return None
    found = mean * members
    near = round(found) if math.isfinite(found) else -1
    return count(near) if math.isclose(found, near, rel_tol=1e-9, abs_tol=1e-6) else None
