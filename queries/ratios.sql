-- Speedups of every contestant over every rival of another house in the runs that speak, with intervals.
-- duckdb -readonly warehouse.db < queries/ratios.sql
.maxrows 1000000
SELECT
    w.device,
    w.workload,
    w.precision,
    w.routing,
    w.tokens,
    w.timing_mode AS mode,
    r.contestant,
    r.rival,
    round(r.speedup_vs_rival, 3) AS speedup_vs_rival,
    round(r.lo, 3) AS lo,
    round(r.hi, 3) AS hi,
    round(r.lo_wide, 3) AS lo_wide,
    round(r.hi_wide, 3) AS hi_wide,
    r.rounds,
    r.reason
FROM winners w
JOIN ratios r ON r.run_id = w.run_id AND r.cell_id = w.cell_id AND r.timing_mode = w.timing_mode
WHERE r.house <> r.rival_house AND r.role <> 'control' AND r.rival_role <> 'control'
ORDER BY w.device, w.workload, w.precision, w.routing, w.tokens, w.timing_mode, w.cell_id, r.contestant, r.rival;
