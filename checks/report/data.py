"""What a report shows of a race, read from the views in one pass. Plain rows in a stable order."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from checks.report.rows import Row, rows

OUTCOMES = ("win", "tie", "inconclusive", "incomplete", "sole entrant")

WINNERS = (
    "SELECT * FROM winners ORDER BY device, workload, timing_mode DESC, precision, routing, tokens, cell_id"
)

# A contestant's time in the run that speaks: the median over rounds, and the order-statistic interval of the
# rounds' medians at the confidence of the run's policy.
TIMES = """
    WITH rounds AS (
        SELECT run_id, cell_id, timing_mode, contestant, list_sort(list(median_us)) AS medians
        FROM round_medians WHERE median_us IS NOT NULL
        GROUP BY run_id, cell_id, timing_mode, contestant
    ),
    ranks AS (
        SELECT n.rounds, c.confidence, order_statistic_rank(n.rounds, c.confidence) AS rank
        FROM (SELECT DISTINCT len(medians) AS rounds FROM rounds) n
        CROSS JOIN (SELECT DISTINCT confidence FROM run_policy WHERE confidence IS NOT NULL) c
    )
    SELECT
        w.device, w.workload, w.timing_mode, w.precision, w.routing, w.tokens, w.cell_id, w.run_id,
        s.contestant, s.house, s.role, s.status, s.reason_code, s.time_us,
        r.medians[k.rank] AS lo_us, r.medians[len(r.medians) + 1 - k.rank] AS hi_us,
        f.reference_floor_us, s.time_us / f.reference_floor_us AS x_floor, f.limiting_resource,
        s.relative_error, s.tolerance, s.repeatability, s.config_source, s.launches, s.samples
    FROM winners w
    JOIN contestant_status s USING (run_id, cell_id, timing_mode)
    JOIN run_policy p ON p.run_id = w.run_id
    LEFT JOIN rounds r
        ON r.run_id = w.run_id AND r.cell_id = w.cell_id AND r.timing_mode = w.timing_mode
        AND r.contestant = s.contestant
    LEFT JOIN ranks k ON k.rounds = len(r.medians) AND k.confidence = p.confidence
    LEFT JOIN floors f ON f.run_id = w.run_id AND f.cell_id = w.cell_id
    ORDER BY w.device, w.workload, w.timing_mode DESC, w.precision, w.routing, w.tokens, s.contestant
"""

RATIOS = """
    SELECT w.device, w.workload, w.timing_mode, w.precision, w.routing, w.tokens, w.cell_id, w.tie_band,
        r.contestant, r.rival, r.rival_role, r.speedup_vs_rival, r.lo, r.hi, r.reason
    FROM winners w
    JOIN ratios r USING (run_id, cell_id, timing_mode)
    WHERE r.role <> 'control' AND r.rival_role <> 'control'
    ORDER BY w.device, w.workload, w.timing_mode DESC, w.precision, w.routing, w.tokens, r.contestant, r.rival
"""

# Spread of single executions about the median of their own cell: pooled over the cells of a precision.
SPREADS = """
    WITH relative AS (
        SELECT w.device, w.workload, w.timing_mode, s.contestant,
            s.time_us / median(s.time_us)
                OVER (PARTITION BY s.run_id, s.cell_id, s.timing_mode, s.contestant) AS x
        FROM winners w
        JOIN samples s USING (run_id, cell_id, timing_mode)
        WHERE s.time_us > 0
    )
    SELECT device, workload, timing_mode, contestant, count(*) AS samples, min(x) AS least,
        quantile_cont(x, 0.01) AS p01, quantile_cont(x, 0.25) AS p25, quantile_cont(x, 0.5) AS p50,
        quantile_cont(x, 0.75) AS p75, quantile_cont(x, 0.99) AS p99, max(x) AS most
    FROM relative
    GROUP BY device, workload, timing_mode, contestant
    ORDER BY device, workload, timing_mode DESC, contestant
"""

REFUSALS = """
    SELECT device, cell_id, timing_mode, contestant, role, reason_code, fault, max(detail) AS detail,
        count(*) AS times
    FROM refusals WHERE run_id IN (SELECT run_id FROM winners)
    GROUP BY ALL ORDER BY ALL
"""

RUNS = """
    SELECT r.run_id, r.producer, r.device, r.driver_version, r.power_limit_w, r.started_at, r.last_event,
        r.policy_sha256, r.source_revision, r.source_sha256, r.source_dirty, r.seed,
        CASE r.producer
            WHEN 'race' THEN r.run_id IN (SELECT run_id FROM winners)
            WHEN 'gate' THEN r.run_id IN (SELECT run_id FROM gate_runs WHERE speaks)
            WHEN 'decode' THEN r.run_id IN (SELECT run_id FROM decode_runs WHERE speaks)
            WHEN 'serve' THEN r.run_id IN (SELECT run_id FROM serving_runs WHERE status = 'passed')
        END AS speaks  -- NULL for what others stand on: ceilings, tuning
    FROM run_status r ORDER BY r.run_id
"""

BUILDS = """
    SELECT run_id, contestant, string_agg(DISTINCT device_uuid, ', ' ORDER BY device_uuid) AS device_uuid,
        string_agg(DISTINCT python_version, ', ' ORDER BY python_version) AS python_version,
        string_agg(DISTINCT torch_version, ', ' ORDER BY torch_version) AS torch_version,
        string_agg(DISTINCT triton_version, ', ' ORDER BY triton_version) AS triton_version,
        string_agg(DISTINCT package_version, ', ' ORDER BY package_version) AS package_version,
        string_agg(DISTINCT cuda_version, ', ' ORDER BY cuda_version) AS cuda_version
    FROM workers WHERE run_id IN (SELECT run_id FROM winners)
    GROUP BY run_id, contestant ORDER BY run_id, contestant
"""

CLOCKS = """
    SELECT run_id, timing_mode, count(*) AS rounds, min(sm_clock_mhz) AS sm_clock_least_mhz,
        median(sm_clock_mhz) AS sm_clock_median_mhz, max(sm_clock_mhz) AS sm_clock_most_mhz,
        max(temperature_c) AS temperature_most_c, max(power_w) AS power_most_w,
        count(*) FILTER (WHERE throttle_reasons <> '') AS throttled_rounds,
        string_agg(DISTINCT throttle_reasons, ', ' ORDER BY throttle_reasons)
            FILTER (WHERE throttle_reasons <> '') AS throttle_reasons
    FROM device_states WHERE run_id IN (SELECT run_id FROM winners)
    GROUP BY run_id, timing_mode ORDER BY run_id, timing_mode
"""

NOISE = """
    SELECT n.* FROM noise_floors n WHERE n.run_id IN (SELECT run_id FROM winners) ORDER BY run_id, timing_mode
"""

POLICIES = """
    SELECT policy_sha256, registered_at, policy_toml FROM policies
    WHERE policy_sha256 IN (SELECT policy_sha256 FROM winners) ORDER BY registered_at
"""


@dataclass(frozen=True)
class ReportData:
    """Rows of every section; a section whose list is empty is left out."""

    winners: list[Row]
    times: list[Row]
    ratios: list[Row]
    spreads: list[Row]
    refusals: list[Row]
    runs: list[Row]
    builds: list[Row]
    clocks: list[Row]
    noise: list[Row]
    policies: list[Row]


def gather(con: duckdb.DuckDBPyConnection) -> ReportData:
    """Read everything that the report shows."""
    return ReportData(
        winners=rows(con, WINNERS),
        times=rows(con, TIMES),
        ratios=rows(con, RATIOS),
        spreads=rows(con, SPREADS),
        refusals=rows(con, REFUSALS),
        runs=rows(con, RUNS),
        builds=rows(con, BUILDS),
        clocks=rows(con, CLOCKS),
        noise=rows(con, NOISE),
        policies=rows(con, POLICIES),
    )
