"""What a served request's raw times mean: the one place where importers and the producer derive figures.

Sources differ in what they keep (vLLM's client stores no latency, SGLang's writes 0.0 for a TTFT that it
lost, both keep the times of requests that failed). The rules here hold for all of them:

- A usable success has no error and at least one output token. Nothing else has a latency.
- A time of 0 is a missing time.
- End-to-end latency is the measured one, else TTFT plus the gaps between chunks.
- TPOT is ``(e2e - TTFT) / (output tokens - 1)``. The mean gap between chunks is that only where each chunk
  holds one token; otherwise the gaps are labelled ``chunk``.
- An answer of several tokens that came in one chunk was buffered: its TTFT is its latency, so it has neither
  TTFT nor TPOT.

Seconds in, as the clients write them; milliseconds out, as the lake keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

NO_TOKENS = "completed without output tokens"
RATE_FIXED, RATE_INFINITE, RATE_TRACE = "fixed", "inf", "trace"


def request_row(
    request: int,
    *,
    error: str | None,
    input_tokens: int | None,
    output_tokens: int | None,
    ttft_s: float | None = None,
    chunk_gaps_s: Sequence[float] | None = None,
    latency_s: float | None = None,
    start_s: float | None = None,
) -> Row:
    """One row of ``serving_requests``, without its ``serving_id``.

    Args:
        request: number of the request in its run, from 0.
        error: what went wrong; None or blank for nothing.
        input_tokens: as the server counted them.
        output_tokens: likewise; None where the source does not say (then only ``error`` decides).
        ttft_s: seconds to the first token; 0, NaN and None are missing.
        chunk_gaps_s: seconds between the chunks of the answer; None where the source has none.
        latency_s: measured end to end; 0, NaN and None are missing.
        start_s: seconds from the run's start.
    """
    failure = (error or "").strip() or (NO_TOKENS if output_tokens == 0 else None)
    row: Row = {
        "request": request,
        "ok": failure is None,
        "error": failure,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "ttft_ms": None,
        "e2e_ms": None,
        "e2e_source": None,
        "tpot_ms": None,
        "chunk_gaps_ms": None,
        "start_s": start_s if start_s is not None and math.isfinite(start_s) else None,
    }
    if failure is not None:
        return row
    ttft, measured = positive(ttft_s), positive(latency_s)
    whole = chunk_gaps_s is not None and all(map(math.isfinite, chunk_gaps_s))
    gaps = list(chunk_gaps_s) if whole and chunk_gaps_s is not None else None
    e2e = measured
    if e2e is None and ttft is not None and (whole or output_tokens == 1):
        e2e = ttft + sum(gaps or ())
    if output_tokens is not None and output_tokens > 1 and gaps is not None and not any(gaps):
        ttft, gaps = None, []  # buffered: one chunk, or chunks that all arrived at once
    row["ttft_ms"] = _ms(ttft)
    row["e2e_ms"] = _ms(e2e)
    row["e2e_source"] = None if e2e is None else "derived" if measured is None else "measured"
    row["tpot_ms"] = _ms(tpot_s(ttft, e2e, output_tokens))
    row["chunk_gaps_ms"] = None if gaps is None else [gap * 1e3 for gap in gaps]
    return row


def tpot_s(ttft_s: float | None, latency_s: float | None, output_tokens: int | None) -> float | None:
    """Seconds per output token after the first; None for one token, and where a part is unknown."""
    if ttft_s is None or latency_s is None or output_tokens is None or output_tokens < 2:  # noqa: PLR2004 - no second token
        return None
    return positive((latency_s - ttft_s) / (output_tokens - 1))


def summarise(requests: Iterable[Mapping[str, Any]], duration_s: float | None) -> Row:
    """The columns of ``serving_runs`` that follow from the rows of its requests.

    Latencies and tokens are those of usable successes. ``requests_failed`` counts everything else; an importer
    whose source says how many failed puts :func:`failed_requests` there instead.

    Args:
        requests: rows of :func:`request_row`.
        duration_s: wall-clock time of the run; None leaves rates NULL.
    """
    rows = list(requests)
    usable = [row for row in rows if row["ok"]]
    duration = positive(duration_s)
    inputs, outputs = total(usable, "input_tokens"), total(usable, "output_tokens")
    ttft, tpot, e2e = (column(usable, name) for name in ("ttft_ms", "tpot_ms", "e2e_ms"))
    gaps = [gap for row in usable for gap in row["chunk_gaps_ms"] or ()]
    summary: Row = {
        "requests_completed": len(usable),
        "requests_failed": len(rows) - len(usable),
        "input_tokens": inputs,
        "output_tokens": outputs,
        "duration_s": duration,
        "output_tokens_per_s": _rate(outputs, duration),
        "requests_per_s": _rate(len(usable), duration),
        "total_tokens_per_s": _rate(
            None if inputs is None or outputs is None else inputs + outputs, duration
        ),
        "ttft_p50_ms": percentile(ttft, 50),
        "ttft_p99_ms": percentile(ttft, 99),
        "ttft_mean_ms": mean(ttft),
        "tpot_mean_ms": mean(tpot),
        "tpot_p50_ms": percentile(tpot, 50),
        "itl_mean_ms": mean(gaps),
        "itl_unit": itl_unit(usable),
        "e2e_mean_ms": mean(e2e),
        "e2e_p50_ms": percentile(e2e, 50),
        "e2e_p99_ms": percentile(e2e, 99),
    }
    return summary


def itl_unit(usable: Iterable[Mapping[str, Any]]) -> str | None:
    """``token`` where every answer has a chunk a token, ``chunk`` where one has not, None without gaps."""
    known = [row for row in usable if row["chunk_gaps_ms"] and row["output_tokens"] is not None]
    if not known:
        return None
    return "token" if all(len(r["chunk_gaps_ms"]) + 1 == r["output_tokens"] for r in known) else "chunk"


def failed_requests(
    *,
    failed: int | None = None,
    asked: int | None = None,
    completed: int | None = None,
    errors: Sequence[str] | None = None,
) -> int | None:
    """How many requests failed: the source's own count, else asked less completed, else errors; else None.

    Never 0 for unknown. ``completed`` is the source's count, not that of usable successes.
    """
    if failed is not None:
        return failed
    if asked is not None and completed is not None:
        return max(asked - completed, 0)
    if errors is not None:
        return sum(1 for error in errors if error and error.strip())
    return None


def outcome(completed: int | None, asked: int | None) -> tuple[str, str | None]:
    """Status and reason of a run that ended: ``passed``, or ``unusable`` where no request is a usable success."""
    if completed is None:
        return "unusable", "how many requests succeeded is unknown"
    if completed <= 0:
        return (
            "unusable",
            f"no usable success in {asked if asked is not None else 'an unknown number of'} requests",
        )
    return "passed", None


def request_rate(value: Any) -> tuple[float | None, str | None]:
    """``request_rate_per_s`` and ``request_rate_mode`` of what a client wrote: a number, ``inf``, ``trace``.

    Raises:
        ValueError: it is none of these, or not over 0.
    """
    if value is None:
        return None, None
    text = str(value).strip().lower()
    if text == RATE_TRACE:
        return None, RATE_TRACE
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if isinstance(value, bool) or math.isnan(rate) or rate <= 0:
        raise ValueError(f"{value!r} is no request rate")
    return (None, RATE_INFINITE) if math.isinf(rate) else (rate, RATE_FIXED)


def positive(value: float | None) -> float | None:
    """The value where it is a number over 0, else None: no time and no rate is 0 or less."""
    return value if value is not None and 0 < value < math.inf else None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The percentile with linear interpolation between ranks (numpy's default, the clients' own); None of none."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of none."""
    return math.fsum(values) / len(values) if values else None


def total(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Sum of a count over rows; None where one of them is unknown, or there are no rows."""
    values = [row[name] for row in rows]
    return sum(values) if values and None not in values else None


def column(rows: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """The known values of a column."""
    return [row[name] for row in rows if row[name] is not None]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _rate(amount: float | None, duration_s: float | None) -> float | None:
    return None if amount is None or duration_s is None else amount / duration_s
