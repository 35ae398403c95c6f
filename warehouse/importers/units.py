"""Units of foreign files, and the one metric and unit that the lake keeps each kind of figure in."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """What a figure in some unit becomes in the lake.

    Attributes:
        metric: Name of the metric, with the lake's unit.
        scale: A value in the foreign unit times this is one in the lake's.
        lower_is_better: Whether less is better; None where the unit does not say.
    """

    metric: str
    scale: float
    lower_is_better: bool | None


KNOWN = "s, ms, us, ns, TFLOPS, GFLOPS, GB/s, TB/s, tok/s, req/s, MB, GB"


def _measures() -> dict[str, Measure]:
    """Every spelling in lower case -> what it becomes."""
    times = {"s": 1e6, "sec": 1e6, "second": 1e6, "seconds": 1e6, "ms": 1e3, "milliseconds": 1e3, "us": 1.0}
    times |= {"\u00b5s": 1.0, "\u03bcs": 1.0, "microseconds": 1.0, "ns": 1e-3, "nanoseconds": 1e-3}
    found = {name: Measure("time_us", scale, lower_is_better=True) for name, scale in times.items()}
    for prefix, scale in {"g": 1e-3, "t": 1.0, "p": 1e3}.items():
        for name in ("flops", "flop/s", "flops/s"):
            found[prefix + name] = Measure("tflops", scale, lower_is_better=False)
    rates = {"mb": 1e-3, "gb": 1.0, "tb": 1e3, "mib": 2**20 / 1e9, "gib": 2**30 / 1e9}
    for name, scale in rates.items():
        for per in ("/s", "/sec"):
            found[name + per] = Measure("gb_per_s", scale, lower_is_better=False)
    for what, metric in {
        "tok": "tokens",
        "token": "tokens",
        "tokens": "tokens",
        "req": "requests",
        "requests": "requests",
    }.items():
        for per in ("/s", "/sec"):
            found[what + per] = Measure(f"{metric}_per_s", 1.0, lower_is_better=False)
    # What a tool calls MB is a million bytes in one and 2^20 in the next: kept as it is written.
    for name in ("kb", "mb", "gb", "kib", "mib", "gib"):
        found[name] = Measure(f"memory_{name}", 1.0, lower_is_better=True)
    return found


_MEASURES = _measures()


def measure(unit: str | None) -> Measure | None:
    """Return what a figure in ``unit`` becomes; None for a unit that is not known (:data:`KNOWN` are)."""
    return _MEASURES.get((unit or "").strip().lower())


def milliseconds(value: float | None, unit: str | None) -> float | None:
    """Return a time in ms; None where the value is none, not over 0, or ``unit`` is no unit of time."""
    known = measure(unit)
    if value is None or known is None or known.metric != "time_us" or not 0 < value < math.inf:
        return None
    return value * known.scale / 1e3
