-- serving_metrics: a row is cell, entrant, metric: the median over repeats, and the interval from the least to the
-- largest repeat, which covers the median with probability `coverage` (order statistics: 0.75 of three repeats).
CREATE VIEW serving_metrics AS
WITH figures AS (
    SELECT
        evidence, device, model, max_concurrency, request_rate, entrant, engine,
        unnest([
            {'metric': 'output_tokens_per_s', 'lower_is_better': FALSE, 'value': output_tokens_per_s},
            {'metric': 'ttft_p50_ms', 'lower_is_better': TRUE, 'value': ttft_p50_ms},
            {'metric': 'ttft_p99_ms', 'lower_is_better': TRUE, 'value': ttft_p99_ms},
            {'metric': 'tpot_p50_ms', 'lower_is_better': TRUE, 'value': tpot_p50_ms},
            {'metric': 'e2e_p50_ms', 'lower_is_better': TRUE, 'value': e2e_p50_ms}
        ], recursive := TRUE)
    FROM serving_entries
)
SELECT
    evidence,
    device,
    model,
    max_concurrency,
    request_rate,
    entrant,
    min(engine) AS engine,
    metric,
    bool_and(lower_is_better) AS lower_is_better,
    count(value) AS repeats,
    median(value) AS value,
    min(value) AS lo,
    max(value) AS hi,
    CASE WHEN count(value) > 1 THEN symmetric_coverage(count(value), 1) END AS coverage
FROM figures
WHERE value > 0 AND isfinite(value)
GROUP BY evidence, device, model, max_concurrency, request_rate, entrant, metric;
