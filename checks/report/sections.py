"""What the report shows beside the race: the gate, decode inside a model, served engines, imported figures, costs.

Each is a section of its own and no ratio crosses two of them. Columns are what the tables print; units and
percentages stand in their names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb

from checks.model import INTERPRETER, INTERPRETER_NOTE
from checks.report.rows import Row, rows

# The runs whose word counts, of each device and model.
GATE_RUNS = """
    SELECT run_id, device, model, positions, required, complete, not_passed, not_passed_configs, runs, last_event,
        speaks, (SELECT max(c.weights) FROM gate_configs c WHERE c.run_id = r.run_id) AS weights
    FROM gate_runs r ORDER BY device, model, run_id
"""
GATE = """
    SELECT g.config, g.role, g.verdict, g.reason, g.positions, g.disagreements, g.large_gaps, g.widest_gap_logits,
        100 * g.agreement AS agreement_percent, 100 * g.yardstick_agreement AS stock_vs_float32_percent,
        100 * g.perplexity_increase AS perplexity_increase_percent, g.drift_ratio, g.expert_error, g.gain_error,
        g.p_worse, g.kernel_calls, g.expert_bytes_before, g.expert_bytes_after, g.duration_s, g.run_id,
        g.large_gap_logits
    FROM gate_results g JOIN gate_runs r USING (run_id)
    WHERE r.speaks ORDER BY r.device, r.model, g.config_order, g.config
"""
GATE_COLUMNS = (
    "config", "verdict", "positions", "disagreements", "large_gaps", "widest_gap_logits", "agreement_percent",
    "stock_vs_float32_percent", "perplexity_increase_percent", "drift_ratio", "expert_error", "gain_error", "p_worse",
    "kernel_calls", "reason",
)  # fmt: skip
# Bins of a tenth of a logit; a bin holds its lower end.
GAPS = """
    SELECT p.run_id, p.config, floor(p.reference_gap_logits * 10)::BIGINT AS bin, count(*) AS positions
    FROM gate_positions p JOIN gate_runs r USING (run_id)
    WHERE r.speaks AND NOT p.agree AND p.reference_gap_logits IS NOT NULL
    GROUP BY ALL ORDER BY p.run_id, p.config, bin
"""
DRIFT = """
    SELECT d.run_id, d.config, d.layer, d.mean_drift, d.largest_drift, d.drift_ratio
    FROM gate_layer_drift d JOIN gate_runs r USING (run_id)
    WHERE r.speaks ORDER BY d.run_id, d.config, d.layer
"""
DECODE = """
    WITH ends AS (
        SELECT run_id, config, min(tokens_per_s) AS least_tokens_per_s, max(tokens_per_s) AS most_tokens_per_s
        FROM decode_repeats GROUP BY run_id, config
    )
    SELECT d.run_id, d.device, d.model, d.weights, d.config, d.status, d.experts, d.layers, d.precision, d.graph, d.repeats,
        d.steps, d.tokens_per_s, e.least_tokens_per_s, e.most_tokens_per_s, d.speedup_vs_stock,
        d.fraction_of_memory_floor, d.positions, d.disagreements, d.largest_gap_logits,
        concat_ws(': ', d.reason_code, d.detail) AS reason
    FROM decode_rates d
    JOIN decode_runs r USING (run_id)
    LEFT JOIN ends e ON e.run_id = d.run_id AND e.config = d.config
    WHERE r.speaks ORDER BY d.device, d.model, d.tokens_per_s DESC NULLS LAST, d.config
"""
DECODE_COLUMNS = (
    "config", "status", "experts", "layers", "precision", "graph", "repeats", "steps", "tokens_per_s",
    "least_tokens_per_s", "most_tokens_per_s", "speedup_vs_stock", "fraction_of_memory_floor", "positions",
    "disagreements", "largest_gap_logits", "reason",
)  # fmt: skip
SERVING = """
    SELECT evidence, device, model, max_concurrency, request_rate, metric, outcome, coalesce(leader, faster) AS ahead,
        margin, figures, repeats, reason, refused
    FROM serving ORDER BY evidence DESC, device, model, max_concurrency, request_rate, metric
"""
SERVING_COLUMNS = (
    "max_concurrency", "request_rate", "metric", "outcome", "ahead", "margin", "figures", "repeats", "reason",
    "refused",
)  # fmt: skip
ENTRANTS = """
    SELECT e.evidence, e.device, e.model, e.max_concurrency, e.request_rate, e.entrant, e.weights,
        concat_ws(' ', e.client, e.client_version) AS client, e.repeats, e.output_tokens_per_s,
        m.lo AS least_tokens_per_s, m.hi AS most_tokens_per_s, e.requests_per_s, e.ttft_p50_ms, e.ttft_p99_ms,
        e.tpot_p50_ms, e.e2e_p50_ms, 100 * e.failure_share AS failed_percent, e.input_tokens, e.output_tokens,
        e.prefix_cache, e.usd_per_million_by_billing, e.usd_per_million_by_rate
    FROM serving_entrants e
    LEFT JOIN serving_metrics m
        ON m.evidence = e.evidence AND m.device = e.device AND m.model = e.model AND m.entrant = e.entrant
        AND m.max_concurrency IS NOT DISTINCT FROM e.max_concurrency AND m.request_rate = e.request_rate
        AND m.metric = 'output_tokens_per_s'
    ORDER BY e.evidence DESC, e.device, e.model, e.entrant, e.max_concurrency, e.request_rate
"""
ENTRANT_COLUMNS = (
    "entrant", "max_concurrency", "request_rate", "weights", "client", "repeats", "output_tokens_per_s",
    "least_tokens_per_s", "most_tokens_per_s", "requests_per_s", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms",
    "e2e_p50_ms", "failed_percent", "input_tokens", "output_tokens", "prefix_cache", "usd_per_million_by_billing",
    "usd_per_million_by_rate",
)  # fmt: skip
NOT_SERVED = """
    SELECT engine, device, model, max_concurrency, repeat, status, reason, serving_id
    FROM serving_runs WHERE status <> 'passed' ORDER BY engine, device, model, max_concurrency, repeat, serving_id
"""
SUMMARY = "SELECT * FROM points_summary ORDER BY ALL"
POINTS = """
    SELECT evidence, benchmark, cell_key, device, metric, contestant, version, rival, rival_version, value, rival_value,
        speedup_vs_rival, outcome, reason
    FROM points_pairs WHERE rival IS NULL OR contestant < rival
    ORDER BY evidence, benchmark, cell_key, device, metric, contestant, version, rival, rival_version
"""
IMPORTS = """
    SELECT import_id, format, source, content_sha256, recorded_at, records_in, rows_out, refused, note
    FROM imports ORDER BY import_id
"""
COSTS = """
    SELECT cost_id, basis, amount_usd, period_s, rate_usd_per_h, covers, source FROM costs ORDER BY cost_id
"""


@dataclass(frozen=True)
class Gate:
    """The run of the gate that speaks for one device and model."""

    run_id: str
    place: str
    verdict: str
    note: str
    configs: list[Row]
    gaps: list[Row]
    drift: list[Row]


@dataclass(frozen=True)
class Decode:
    """The run of decode that speaks for one device and model."""

    run_id: str
    place: str
    verdict: str
    note: str
    configs: list[Row]


@dataclass(frozen=True)
class Served:
    """Served engines of one device and model, measured or imported."""

    place: str
    verdict: str
    note: str
    outcomes: list[Row]
    entrants: list[Row]


@dataclass(frozen=True)
class Sections:
    """Rows of every section beside the race; one whose list is empty is left out of the report."""

    gates: list[Gate]
    gate_runs: list[Row]
    decodes: list[Decode]
    served: list[Served]
    not_served: list[Row]
    summary: list[Row]
    points: list[Row]
    imports: list[Row]
    costs: list[Row]


def gather(con: duckdb.DuckDBPyConnection) -> Sections:
    """Read the sections beside the race."""
    runs = rows(con, GATE_RUNS)
    return Sections(
        gates=_gates(con, [r for r in runs if r["speaks"]]),
        gate_runs=runs,
        decodes=[
            Decode(
                run,
                _place(found[0]),
                decode_verdict(found),
                _note(found[0]),
                found,
            )
            for run, found in _by_run(rows(con, DECODE)).items()
        ],
        served=_served(rows(con, SERVING), rows(con, ENTRANTS)),
        not_served=rows(con, NOT_SERVED),
        summary=rows(con, SUMMARY),
        points=rows(con, POINTS),
        imports=rows(con, IMPORTS),
        costs=rows(con, COSTS),
    )


def _gates(con: duckdb.DuckDBPyConnection, speaking: list[Row]) -> list[Gate]:
    configs, gaps, drift = (_by_run(rows(con, query)) for query in (GATE, GAPS, DRIFT))
    found = []
    for r in speaking:
        mine = configs.get(r["run_id"], [])
        ordered = [_in_order(of_run.get(r["run_id"], []), mine) for of_run in (gaps, drift)]
        found.append(Gate(r["run_id"], _place(r), gate_verdict(mine), _note(r), mine, *ordered))
    return found


def _in_order(found: list[Row], configs: list[Row]) -> list[Row]:
    """Return rows in the order of the table of configurations; those of one keep theirs (bins, layers)."""
    order = {c["config"]: place for place, c in enumerate(configs)}
    return sorted(found, key=lambda row: order[row["config"]])


def decode_verdict(configs: list[Row]) -> str:
    """Return the quickest configuration and its ratio to the stock model's, and what was not timed."""
    timed = [c for c in configs if c["tokens_per_s"] is not None]
    others = [f"{c['config']} is {c['status']}" for c in configs if c["tokens_per_s"] is None]
    if not timed:
        return "No configuration was timed."
    best = max(timed, key=lambda c: c["tokens_per_s"])
    ratio = f", {best['speedup_vs_stock']:.2f}x the stock model's rate" if best["speedup_vs_stock"] else ""
    said = f"{best['config']} has the highest median rate, {best['tokens_per_s']:.4g} tokens/s{ratio}."
    return f"{said} {', '.join(others)}." if others else said


def _served(outcomes: list[Row], entrants: list[Row]) -> list[Served]:
    def group_of(row: Row) -> tuple[str, str, str]:
        return row["evidence"], row["device"], row["model"]

    return [
        Served(
            f"{_place(next(r for r in entrants if group_of(r) == (evidence, device, model)))}, {evidence}",
            serving_verdict(mine := [r for r in outcomes if group_of(r) == (evidence, device, model)]),
            INTERPRETER_NOTE if device == INTERPRETER else "",
            mine,
            [r for r in entrants if group_of(r) == (evidence, device, model)],
        )
        for evidence, device, model in dict.fromkeys(map(group_of, entrants))
    ]


def serving_verdict(outcomes: list[Row]) -> str:
    """Return who leads in throughput at how many loads; what else came of the loads is counted."""
    loads = [r for r in outcomes if r["metric"] == "output_tokens_per_s"]
    counts = Counter(
        f"{r['ahead']} {'leads' if r['outcome'] == 'leads' else 'has the higher point figure'}"
        if r["ahead"]
        else str(r["outcome"])
        for r in loads
    )
    if not loads:
        return "Nothing is known of the throughput."
    said = ", ".join(f"{what} at {count} of {len(loads)} loads" for what, count in counts.most_common())
    return f"Output tokens a second: {said}."


def _place(row: Row) -> str:
    """Device and model in one line, and what its weights are: seeded and dummy ones are no trained model."""
    weights = f" ({row['weights']} weights)" if row["weights"] else ""
    return f"{row['device']}, {row['model']}{weights}"


def _note(row: Row) -> str:
    return INTERPRETER_NOTE if row["device"] == INTERPRETER else ""


def _by_run(found: list[Row]) -> dict[Any, list[Row]]:
    ordered = sorted(found, key=lambda r: str(r["run_id"]))
    return {run: list(group) for run, group in groupby(ordered, key=lambda r: r["run_id"])}


def gate_verdict(configs: list[Row]) -> str:
    """Return how many candidates passed, at how many positions, and what is with the others."""
    candidates = [c for c in configs if c["role"] == "candidate"]
    passed = [c for c in candidates if c["verdict"] == "passed"]
    if not candidates:
        return "No candidate was compared."
    said = "All" if len(passed) == len(candidates) else f"{len(passed)} of"
    least = min((c["positions"] for c in passed), default=0)
    positions = f" at {least} positions each" if passed else ""
    counted = f"{said} {len(candidates)} candidate{'s' if len(candidates) > 1 else ''} passed{positions}."
    others = [
        f"{c['config']} is {c['verdict']}" for c in configs if c["verdict"] not in {"passed", "yardstick"}
    ]
    return f"{counted} {', '.join(others)}." if others else counted
