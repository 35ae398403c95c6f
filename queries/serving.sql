-- Served engines, per device, model and load: throughput, latencies, failures and cost, medians over repeats; who
-- leads in what, and where nobody does, why. A reference of its own: no row meets a kernel race or in-model decode.
-- duckdb -readonly warehouse.db < queries/serving.sql
.maxrows 1000000
WITH leads AS (
    SELECT
        evidence, device, model, max_concurrency, request_rate,
        string_agg(metric || ': ' || coalesce(leader, faster || ' (point figures)'), ', ' ORDER BY metric)
            FILTER (WHERE coalesce(leader, faster) IS NOT NULL) AS leaders,
        string_agg(DISTINCT outcome, ', ' ORDER BY outcome) AS outcomes,
        string_agg(DISTINCT reason, ' | ' ORDER BY reason) AS reason,
        max(refused) AS refused
    FROM serving
    GROUP BY evidence, device, model, max_concurrency, request_rate
)
SELECT
    e.evidence,
    e.device,
    e.model,
    e.weights,
    e.max_concurrency AS concurrency,
    e.request_rate AS rate,
    e.entrant,
    e.client || coalesce(' ' || e.client_version, '') AS client,
    e.repeats,
    round(e.output_tokens_per_s, 1) AS output_tokens_per_s,
    printf('[%.1f, %.1f]', t.lo, t.hi) AS "interval",
    round(e.requests_per_s, 3) AS requests_per_s,
    round(e.ttft_p50_ms, 2) AS ttft_p50_ms,
    round(e.ttft_p99_ms, 2) AS ttft_p99_ms,
    round(e.tpot_p50_ms, 3) AS tpot_p50_ms,
    round(e.e2e_p50_ms, 2) AS e2e_p50_ms,
    round(e.failure_share, 4) AS failure_share,
    e.input_tokens::BIGINT AS input_tokens,
    e.output_tokens::BIGINT AS output_tokens,
    e.prefix_cache,
    round(coalesce(e.usd_per_million_by_billing, e.usd_per_million_by_rate), 4) AS usd_per_million_output_tokens,
    CASE WHEN e.usd_per_million_by_billing IS NOT NULL THEN 'billing'
        WHEN e.usd_per_million_by_rate IS NOT NULL THEN 'rate' END AS cost_basis,
    round(e.usd_per_million_by_rate, 4) AS usd_per_million_by_rate,
    l.outcomes,
    l.leaders,
    l.reason,
    l.refused
FROM serving_entrants e
LEFT JOIN serving_metrics t
    ON t.evidence = e.evidence AND t.device = e.device AND t.model = e.model
    AND t.max_concurrency IS NOT DISTINCT FROM e.max_concurrency AND t.request_rate = e.request_rate
    AND t.entrant = e.entrant AND t.metric = 'output_tokens_per_s'
LEFT JOIN leads l
    ON l.evidence = e.evidence AND l.device = e.device AND l.model = e.model
    AND l.max_concurrency IS NOT DISTINCT FROM e.max_concurrency AND l.request_rate = e.request_rate
ORDER BY e.evidence, e.device, e.model, e.max_concurrency, e.request_rate, e.entrant;
