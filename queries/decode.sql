-- Tokens a second at concurrency 1 inside a language model, configuration by configuration. Never beside served engines:
-- a server does more for a token, and its client is another.
-- duckdb -readonly warehouse.db < queries/decode.sql
.maxrows 1000000
SELECT
    d.device,
    d.model,
    r.run_id,
    r.speaks,
    d.config,
    d.experts,
    d.layers,
    d.precision,
    d.graph,
    d.repeats,
    d.steps,
    round(d.tokens_per_s, 2) AS tokens_per_s,
    round(d.lo, 2) AS lo,
    round(d.hi, 2) AS hi,
    round(d.speedup_vs_stock, 3) AS speedup_vs_stock,
    round(d.speedup_lo, 3) AS speedup_lo,
    round(d.speedup_hi, 3) AS speedup_hi,
    round(d.weight_bytes / 1e9, 3) AS weight_gb,
    round(d.fraction_of_memory_floor, 3) AS fraction_of_memory_floor,
    d.positions,
    d.disagreements,
    round(d.largest_gap_logits, 3) AS largest_gap_logits,
    d.status,
    concat_ws(': ', d.reason_code, d.detail) AS reason
FROM decode_rates d
JOIN decode_runs r USING (run_id)
ORDER BY d.device, d.model, r.run_id, d.tokens_per_s NULLS LAST, d.config;
