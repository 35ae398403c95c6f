"""The founding write-up's figures as published evidence, from the shared reference file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warehouse.append import append

IMPORT = "phase6"


def write(lake: Path, figures: dict[str, Any]) -> None:
    """Append the figures to ``lake`` as rows of `points`."""
    rows: list[dict[str, Any]] = []

    def point(
        contestant: str, metric: str, value: float, *, lower: bool, key: dict[str, Any], **cell: Any
    ) -> None:
        rows.append(
            {
                "import_id": IMPORT,
                "row": len(rows),
                "evidence": "published",
                "contestant": contestant,
                "house": contestant.partition("-")[0],
                "metric": metric,
                "value": value,
                "lower_is_better": lower,
                "cell_key": json.dumps({**key, **cell}, sort_keys=True),
                "status": "unverified",
                **cell,
            }
        )

    race = figures["race"]
    for entry in race["ratio_best_dispatch_over_vllm"]:
        for precision in race["precisions"]:
            for routing, ratio in zip(race["distributions"], entry[precision], strict=True):
                cell = {"precision": precision, "routing": routing, "tokens": entry["tokens"]}
                point("vllm", "time_over_vllm", 1.0, lower=True, key={}, **cell)
                point("dispatch", "time_over_vllm", ratio, lower=True, key={}, **cell)
    for full in race["cells_published_in_full"]:
        for contestant, time in full["ms"].items():
            cell = {"precision": full["precision"], "tokens": full["tokens"]}
            point(contestant, "time_ms", time, lower=True, key={}, **cell)
    for run in figures["serving"]:
        key = {"served at concurrency": run["concurrency"]}
        point(run["engine"], "output_tokens_per_s", run["output_tok_s"], lower=False, key=key)
        point(run["engine"], "ttft_p50_ms", run["ttft_p50_ms"], lower=True, key=key)
    for run in figures["in_model_decode_concurrency_1"]:
        name = "dispatch" if run["config"].startswith("dispatch") else run["config"]
        point(name, "decode_tokens_per_s", run["tok_s"], lower=False, key={"decode in model": 1})
    for config in figures["gate"]["configs"]:
        key = {"gate": config["config"]}
        point(config["config"], "top1_agreement_percent", config["top1_agreement_pct"], lower=False, key=key)
    append(lake, "points", rows)
    append(
        lake,
        "imports",
        [
            {
                "import_id": IMPORT,
                "recorded_at": datetime(2026, 1, 1, tzinfo=UTC),
                "format": "published",
                "source": "the phase-6 write-up",
                "rows_out": len(rows),
            }
        ],
    )
