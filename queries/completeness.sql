-- Which cells can be judged, and who is missing where they cannot.
-- duckdb -readonly warehouse.db < queries/completeness.sql
.maxrows 1000000
SELECT
    device,
    workload,
    precision,
    routing,
    tokens,
    timing_mode AS mode,
    complete,
    required,
    measured,
    refused,
    missing,
    reason,
    rounds,
    sessions,
    run_id,
    runs
FROM completeness
ORDER BY device, workload, precision, routing, tokens, timing_mode, cell_id;
