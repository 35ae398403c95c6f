-- Who wins, per device, cell and timing mode; margin is the speedup over the best other house.
-- duckdb -readonly warehouse.db < queries/winners.sql
.maxrows 1000000
SELECT
    device,
    workload,
    precision,
    routing,
    tokens,
    timing_mode AS mode,
    outcome_text,
    winner,
    runner_up,
    round(margin, 3) AS margin,
    printf('[%.3f, %.3f]', margin_lo, margin_hi) AS "interval",
    measured,
    refused,
    missing,
    informational_faster,
    runs
FROM winners
ORDER BY device, workload, precision, routing, tokens, timing_mode, cell_id;
