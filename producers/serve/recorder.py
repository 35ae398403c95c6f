"""Rows of a serve run: one of ``serving_runs`` for each point, its requests in ``serving_requests``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from producers.recorder import Recorder, scrub
from producers.serve.plan import Plan, Point
from warehouse.serving import RATE_FIXED, RATE_INFINITE, request_row, summarise

Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What all points of one engine share: columns of ``serving_runs``, and what goes into ``extra_json``."""

    columns: Mapping[str, Any]
    extra: Mapping[str, Any]


def serving_id(run_id: str, event_seq: int, point: Point) -> str:
    """Identity of a point's row; ``event_seq`` is that of the start or resumption that measured it."""
    return f"{run_id}/{event_seq}/{point.engine}/c{point.concurrency}/r{point.repeat}"


class ServeRecorder(Recorder):
    """Appends the rows of one serve run."""

    invocation = 0  # event_seq of this invocation's start

    def point(
        self,
        plan: Plan,
        point: Point,
        setting: Setting,
        prompts_sha256: str | None,
        answer: Mapping[str, Any],
        failure: tuple[str, str] | None = None,
    ) -> Row:
        """Record a point that was measured, or broke off; returns its row.

        Args:
            plan: the run's.
            point: which.
            setting: of its engine.
            prompts_sha256: of the requests that were sent.
            answer: the client's ``results``, ``duration_s`` and ``cpu_s``; empty where there is none.
            failure: reason code and detail of a point that does not count.
        """
        identity = serving_id(self.run_id, self.invocation, point)
        results = answer.get("results", ())
        requests = [
            request_row(
                number,
                error=result.get("error"),
                input_tokens=result.get("input_tokens"),
                output_tokens=result.get("output_tokens"),
                ttft_s=result.get("ttft_s"),
                chunk_gaps_s=result.get("chunk_gaps_s"),
                latency_s=result.get("latency_s"),
                start_s=result.get("start_s"),
            )
            for number, result in enumerate(results)
        ]
        summary = summarise(requests, answer.get("duration_s")) if requests else {}
        if requests and failure is None and not summary["requests_completed"]:
            failure = ("all-requests-failed", f"of {len(requests)}, the first with: {requests[0]['error']}")
        cached = [result["cached_tokens"] for result in results if result.get("cached_tokens") is not None]
        extra = {**setting.extra, "client_cpu_share": _share(answer)}
        rate = plan.request_rate
        row = {
            "serving_id": identity,
            "run_id": self.run_id,
            "evidence": "measured",
            "model": plan.model,
            "weights": plan.weights,
            **setting.columns,
            "engine": point.engine,
            "repeat": point.repeat,
            "max_concurrency": point.concurrency,
            "request_rate_per_s": rate,
            "request_rate_mode": RATE_INFINITE if rate is None else RATE_FIXED,
            "input_tokens_asked": plan.input_tokens,
            "output_tokens_asked": plan.output_tokens,
            "requests_asked": plan.requests_of(point.concurrency),
            **summary,
            "seed": plan.seed,
            "prompts_sha256": prompts_sha256,
            "prefix_cache_hits": sum(cached) if cached else None,
            "extra_json": json.dumps(extra, sort_keys=True),
            "status": "passed" if failure is None else "refused",
            "reason": None if failure is None else f"{failure[0]}: {scrub(failure[1])}",
            "recorded_at": datetime.now(UTC),
        }
        # The requests first: without its run's row nothing refers to them, and the point is measured again.
        self._append("serving_requests", [{**request, "serving_id": identity} for request in requests])
        self._append("serving_runs", [row])
        return row

    def refusals(self, plan: Plan, points: Sequence[Point], setting: Setting, code: str, detail: str) -> None:
        """Record points that could not be measured at all."""
        for point in points:
            self.point(plan, point, setting, None, {}, (code, detail))


def _share(answer: Mapping[str, Any]) -> float | None:
    """Share of one core that the client used while it measured: near 1 it was the bottleneck."""
    duration = answer.get("duration_s")
    return round(answer["cpu_s"] / duration, 3) if duration else None
