"""Synthetic evidence beside the race, as its producers write it: a gate, decode steps, served engines, prices, imports.

Each function appends one run to a lake that :func:`tests.lakes.write` may have begun. Values are simple numbers, so that
a test can say what has to come out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.lakes import DEVICE, EPOCH, POLICY, run_id
from warehouse.append import append

Rows = list[dict[str, Any]]
POSITIONS = 1036  # what the policy asks for
CANDIDATES = (
    "naive_bf16",
    "persistent_bf16",
    "auto_bf16",
    "auto_int8_w8a16",
    "auto_int8_w8a8",
)
LAYERS = 3


def start(lake: Path, run: str, producer: str, device: str = DEVICE, policy: str = POLICY) -> None:
    """Register the policy, and append a run of ``producer`` that began and ended."""
    sha256 = hashlib.sha256(policy.encode()).hexdigest()
    append(lake, "policies", [{"policy_sha256": sha256, "registered_at": EPOCH, "policy_toml": policy}])
    events: Rows = [
        {
            "run_id": run,
            "event_seq": seq,
            "event": event,
            "recorded_at": EPOCH + timedelta(minutes=seq, hours=1),
            "producer": producer,
            "policy_sha256": sha256,
            "device": device,
            "plan_json": "{}" if seq == 0 else None,
        }
        for seq, event in enumerate(("started", "finished"))
    ]
    append(lake, "runs", events)


def write_gate(
    lake: Path,
    *,
    number: int = 100,
    device: str = DEVICE,
    model: str = "tiny",
    disagreements: Mapping[str, int] | None = None,
    voided: Sequence[str] = (),
    gap: float = 0.05,
) -> str:
    """Append a gate of every configuration that the policy requires; return its run.

    Args:
        lake: Where.
        number: Of the run.
        device: Where it ran.
        model: What was gated.
        disagreements: Configuration -> positions at which it chose another token; one for those that are not named.
        voided: Configurations in which another kernel than the named one ran.
        gap: The stock model's gap, in logits, at those positions; each further one has 0.1 more, up to 0.5.
    """
    run = run_id(number)
    start(lake, run, "gate", device)
    configs, positions, experts = Rows(), Rows(), Rows()
    wrong = {"stock_vs_stock": 0, "stock_bf16_vs_float32": 2, **(disagreements or {})}
    for place, config in enumerate(("stock_vs_stock", "stock_bf16_vs_float32", *CANDIDATES)):
        candidate, _, precision = config.partition("_")
        void = config in voided
        configs.append(
            {
                "run_id": run,
                "config": config,
                "attempt": 0,
                "started_at": EPOCH + timedelta(hours=2, minutes=place),
                "recorded_at": EPOCH + timedelta(hours=2, minutes=place + 1),
                "status": "void" if void else "measured",
                "reason_code": "kernel-not-called" if void else None,
                "fault": "contestant" if void else None,
                "detail": "layer 0 ran stock" if void else None,
                "model": model,
                "weights": "seeded",
                "candidate": candidate,
                "precision": "bf16" if candidate == "stock" else precision,
                "positions": POSITIONS,
                "tokens_sha256": "t" * 64,
                "kernel_calls": None if candidate == "stock" else 12,
            }
        )
        if void:
            continue
        drift = {"stock_vs_stock": 0.0, "stock_bf16_vs_float32": 0.01}.get(config, 0.012)
        count = wrong.get(config, 1)
        positions += [
            {
                "run_id": run,
                "config": config,
                "position": i,
                "model": model,
                "tokens_sha256": "t" * 64,
                # Stock decides i everywhere; in the yardstick it is the candidate, and float32 decides otherwise.
                "reference_top1": -1 if i < count and config == "stock_bf16_vs_float32" else i,
                "candidate_top1": -1 if i < count and config != "stock_bf16_vs_float32" else i,
                "agree": i >= count,
                "reference_gap_logits": 0.0 if i >= count else gap + 0.1 * (i % 5),
                "reference_nll": 2.0,
                "candidate_nll": 2.0,
                "layer_drift": [drift * (layer + 1) for layer in range(LAYERS)],
                "kernel_calls": None if candidate == "stock" else 12,
            }
            for i in range(POSITIONS)
        ]
        if candidate != "stock":
            experts += [
                {
                    "run_id": run,
                    "config": config,
                    "layer": "layers.0.mlp.experts",
                    "expert": e,
                    "tokens": 64,
                    "relative_error": 0.004,
                    "gain": 1.0004,
                    "attempt": 0,
                }
                for e in range(4)
            ]
    for table, rows in {
        "gate_configs": configs,
        "gate_positions": positions,
        "gate_experts": experts,
    }.items():
        append(lake, table, rows)
    return run


def write_decode(
    lake: Path,
    rates: Mapping[str, float],
    *,
    number: int = 200,
    device: str = DEVICE,
    model: str = "tiny",
    repeats: int = 3,
    steps: int = 8,
) -> str:
    """Append decode steps of configurations -> tokens a second; repeat r is r % slower than repeat 0."""
    run = run_id(number)
    start(lake, run, "decode", device)
    rows: Rows = [
        {
            "run_id": run,
            "config": config,
            "repeat": repeat,
            "step": step,
            "model": model,
            "precision": _precision(config),
            "graph": "graph" in config,
            "prompt_sha256": "p" * 64,
            "output_sha256": "o" * 64,
            "time_us": 1e6 / rate * (1 + repeat / 100),
            "weight_bytes": 1_000_000,
        }
        for config, rate in rates.items()
        for repeat in range(repeats)
        for step in range(steps)
    ]
    append(lake, "decode_configs", [_decode_config(run, config, model, steps) for config in rates])
    append(lake, "decode_steps", rows)
    return run


def _precision(config: str) -> str:
    return next((p for p in ("int8_w8a16", "int8_w8a8") if config.endswith(p)), "bf16")


def _decode_config(run: str, config: str, model: str, steps: int) -> dict[str, Any]:
    """The check of a configuration that is timed afterwards: all but stock decide otherwise once, by a near tie."""
    stock = config == "stock_eager_bf16"
    kernel_calls = 9 if config.startswith(("dispatch", "fused")) else None
    return {
        "run_id": run,
        "config": config,
        "stage": "check",
        "recorded_at": EPOCH + timedelta(hours=1),
        "status": "passed",
        "model": model,
        "weights": "seeded",
        "model_sha256": "m" * 64,
        "experts": "dispatch" if kernel_calls else "eager" if stock else "grouped_mm",
        "layers": "fused" if config.startswith("fused") else "transformers",
        "precision": _precision(config),
        "graph": "graph" in config,
        "prompt_tokens": 128,
        "prompt_sha256": "p" * 64,
        "reference": "stock_eager_bf16",
        "positions": steps + 3,
        "disagreements": 0 if stock else 1,
        "first_disagreement": None if stock else 2,
        "first_gap_logits": None if stock else 0.05,
        "largest_gap_logits": None if stock else 0.05,
        "large_gaps": 0,
        "kernel_calls": kernel_calls,
        "weight_bytes": 1_000_000,
    }


def write_serving(
    lake: Path,
    rates: Mapping[str, float],
    *,
    number: int = 300,
    device: str = DEVICE,
    loads: Sequence[int] = (1, 4),
    repeats: int = 3,
    **changed: Any,
) -> str:
    """Append served runs of engines -> tokens a second at one request; N requests at once give N times as much.

    Repeat r is r % slower than repeat 0. ``changed`` replaces columns of every row.
    """
    run = run_id(number)
    start(lake, run, "serve", device)
    rows: Rows = [
        {
            "serving_id": f"{run}-{engine}-{load}-{repeat}",
            "run_id": run,
            "evidence": "measured",
            "engine": engine,
            "engine_version": "1.0",
            "client": "guidellm",
            "client_version": "0.8",
            "model": "tiny",
            "weights": "dummy",
            "device": device,
            "repeat": repeat,
            "max_concurrency": load,
            "request_rate_mode": "inf",
            "input_tokens_asked": 128,
            "output_tokens_asked": 128,
            "requests_asked": 8 * load,
            "requests_completed": 8 * load,
            "requests_failed": 0,
            "input_tokens": 1024 * load,
            "output_tokens": 1024 * load,
            "duration_s": 1024 / rate * (1 + repeat / 100),
            "output_tokens_per_s": rate * load / (1 + repeat / 100),
            "requests_per_s": rate * load / 128 / (1 + repeat / 100),
            "ttft_p50_ms": 2000 / rate + load,
            "ttft_p99_ms": 4000 / rate + load,
            "tpot_p50_ms": 1000 / rate,
            "e2e_p50_ms": 128_000 / rate,
            "prompts_sha256": "q" * 64,
            "prefix_cache": "off",
            "status": "passed",
            "recorded_at": EPOCH + timedelta(hours=3),
            **changed,
        }
        for engine, rate in rates.items()
        for load in loads
        for repeat in range(repeats)
    ]
    append(lake, "serving_runs", rows)
    return run


def write_price(lake: Path, usd_per_h: float) -> None:
    """Append what an hour of the machine costs."""
    append(
        lake,
        "costs",
        [
            {
                "cost_id": f"rate-{usd_per_h}",
                "recorded_at": EPOCH,
                "basis": "rate",
                "rate_usd_per_h": usd_per_h,
                "covers": "one card",
                "source": "a price list",
            }
        ],
    )


def write_points(lake: Path, times_us: Mapping[str, Sequence[float]], *, evidence: str = "imported") -> None:
    """Append imported figures: contestant -> its times in cells 0, 1, ..."""
    source = {"import_id": "table", "recorded_at": EPOCH, "format": "csv", "source": "a table.csv"}
    rows: Rows = [
        {
            "import_id": "table",
            "row": place * 1000 + cell,
            "evidence": evidence,
            "contestant": contestant,
            "house": contestant,
            "cell_key": f'{{"cell": {cell}}}',
            "metric": "time_us",
            "value": value,
            "lower_is_better": True,
            "device": DEVICE,
            "status": "unverified",
        }
        for place, (contestant, times) in enumerate(times_us.items())
        for cell, value in enumerate(times)
    ]
    count = {"records_in": len(rows), "rows_out": len(rows), "refused": 0}
    append(lake, "imports", [{**source, **count}])
    append(lake, "points", rows)
