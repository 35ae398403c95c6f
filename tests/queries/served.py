"""Served runs as rows of the lake: engines, repeats, and what may differ between them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warehouse.append import append
from warehouse.serving import request_row, summarise

Row = dict[str, Any]

RUN = "20260201T000000Z-00000001"


def requests(token_ms: float = 10.0, first_ms: float = 50.0) -> list[Row]:
    """The four requests of a point, without their serving_id."""
    gaps = [token_ms / 1e3] * 4
    given: Row = {"error": None, "input_tokens": 8, "output_tokens": 5, "ttft_s": first_ms / 1e3}
    return [request_row(number, **given, chunk_gaps_s=gaps, start_s=0.0) for number in range(4)]


def served(
    engine: str, *, repeat: int = 0, token_ms: float = 10.0, first_ms: float = 50.0, **given: Any
) -> Row:
    """One point of four requests in two lanes: 8 tokens in, 5 out, at ``token_ms`` a token after the first."""
    row = {
        "serving_id": f"{given.get('run_id', RUN)}/{engine}/{given.get('max_concurrency', 2)}/{repeat}",
        "run_id": RUN,
        "evidence": "measured",
        "engine": engine,
        "engine_version": "1.0",
        "client": "guidellm",
        "client_version": "0.8.1",
        "model": "toy",
        "weights": "dummy",
        "device": "NVIDIA H200",
        "device_uuid": "GPU-0",
        "repeat": repeat,
        "max_concurrency": 2,
        "request_rate_mode": "inf",
        "input_tokens_asked": 8,
        "output_tokens_asked": 5,
        "requests_asked": 4,
        **summarise(requests(token_ms, first_ms), 2 * (first_ms + 4 * token_ms) / 1e3),
        "prompts_sha256": f"prompts-{repeat}",
        "prefix_cache": "off",
        "server_args_json": json.dumps([engine]),
        "status": "passed",
        "recorded_at": datetime(2026, 2, 1, tzinfo=UTC),
    }
    return row | given


def repeats(engine: str, *token_ms: float, **given: Any) -> list[Row]:
    """One point for each time of a token."""
    return [served(engine, repeat=number, token_ms=time, **given) for number, time in enumerate(token_ms)]


def write_served(lake: Path, rows: list[Row], *costs: Row, policy: str | None = None) -> None:
    """Append served runs, their run's start and end under a policy, and costs."""
    append(lake, "serving_runs", rows)
    sha256 = None
    if policy is not None:
        sha256 = hashlib.sha256(policy.encode()).hexdigest()
        registered = {"policy_sha256": sha256, "registered_at": datetime(2026, 1, 31, tzinfo=UTC)}
        append(lake, "policies", [{**registered, "policy_toml": policy}])
    for run in sorted({row["run_id"] for row in rows} - {None}):
        events = [
            {
                "run_id": run,
                "event_seq": number,
                "event": event,
                "recorded_at": datetime(2026, 2, 1, tzinfo=UTC),
                "producer": "serve",
                "device": "NVIDIA H200",
                "policy_sha256": sha256,
            }
            for number, event in enumerate(("started", "finished"))
        ]
        append(lake, "runs", events)
    append(lake, "costs", [{"cost_id": str(number), **cost} for number, cost in enumerate(costs)])
