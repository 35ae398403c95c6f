-- serving_pairs: a row is cell, entrant, rival, metric (ordered pairs of different engines).
-- speedup_vs_rival > 1: this entrant is better, for latency and throughput alike; [lo, hi] is the widest that the
-- two intervals allow. All three are NULL, with the reason, where the two did not do the same work.
CREATE VIEW serving_pairs AS
WITH pairs AS (
    SELECT
        a.evidence, a.device, a.model, a.max_concurrency, a.request_rate, a.entrant, a.engine,
        b.entrant AS rival,
        b.engine AS rival_engine,
        greatest(a.min_repeats, b.min_repeats) AS min_repeats,
        nullif(concat_ws(
            '; ',
            CASE WHEN a.input_tokens IS NULL OR b.input_tokens IS NULL OR a.output_tokens IS NULL OR b.output_tokens IS NULL
                THEN 'unequal workload: measured tokens are unknown' END,
            CASE
                WHEN abs(a.input_tokens - b.input_tokens)
                    > least(a.token_tolerance, b.token_tolerance) * least(a.input_tokens, b.input_tokens)
                    OR abs(a.output_tokens - b.output_tokens)
                    > least(a.token_tolerance, b.token_tolerance) * least(a.output_tokens, b.output_tokens)
                    THEN printf(
                        'unequal workload: %.0f tokens in and %.0f out against %.0f and %.0f',
                        a.input_tokens, a.output_tokens, b.input_tokens, b.output_tokens
                    )
                WHEN a.requests_completed <> b.requests_completed
                    AND abs(a.requests_completed - b.requests_completed)
                    > least(a.token_tolerance, b.token_tolerance) * least(a.requests_completed, b.requests_completed)
                    THEN printf(
                        'unequal workload: %.0f requests against %.0f', a.requests_completed, b.requests_completed
                    )
            END,
            -- Every repeat has prompts of its own, and one that was refused is missing from one side.
            CASE WHEN NOT (list_has_all(a.prompts, b.prompts) OR list_has_all(b.prompts, a.prompts))
                THEN 'unequal workload: other prompts' END,
            CASE WHEN (a.input_tokens_asked, a.output_tokens_asked)
                IS DISTINCT FROM (b.input_tokens_asked, b.output_tokens_asked) AND a.evidence = 'measured'
                THEN 'unequal workload: other lengths asked' END,
            CASE WHEN a.client IS NULL OR b.client IS NULL THEN 'client unknown'
                WHEN a.client <> b.client OR a.client_version IS DISTINCT FROM b.client_version
                THEN printf(
                    'client differs: %s against %s',
                    concat_ws(' ', a.client, a.client_version), concat_ws(' ', b.client, b.client_version)
                ) END,
            CASE WHEN a.weights IS DISTINCT FROM b.weights THEN printf(
                'weights differ: %s against %s', coalesce(a.weights, 'unknown'), coalesce(b.weights, 'unknown')
            ) END,
            CASE WHEN a.cards <> b.cards THEN 'other card' END,
            CASE WHEN a.model = 'unknown' THEN 'model unknown' END,
            CASE WHEN a.max_concurrency IS NULL AND a.request_rate = 'unknown' THEN 'load unknown' END,
            CASE WHEN coalesce(a.prefix_cache, 'unknown') <> coalesce(b.prefix_cache, 'unknown') THEN printf(
                'prefix cache differs: %s against %s',
                coalesce(a.prefix_cache, 'unknown'), coalesce(b.prefix_cache, 'unknown')
            )
                WHEN coalesce(a.prefix_cache, 'unknown') = 'unknown' THEN 'prefix cache unknown'
                WHEN a.prefix_cache = 'on'
                    AND (coalesce(a.prefix_cache_hits, 1) > 0 OR coalesce(b.prefix_cache_hits, 1) > 0)
                    THEN 'answered from the prefix cache' END,
            CASE WHEN a.failure_share IS NULL OR b.failure_share IS NULL THEN 'failures unknown'
                WHEN a.failure_share > a.max_failure_share OR b.failure_share > b.max_failure_share THEN printf(
                    'failure share %.3g against %.3g', a.failure_share, b.failure_share
                ) END
        ), '') AS difference
    FROM serving_entrants a
    JOIN serving_entrants b
        ON b.evidence = a.evidence AND b.device = a.device AND b.model = a.model
        AND b.max_concurrency IS NOT DISTINCT FROM a.max_concurrency AND b.request_rate = a.request_rate
        AND b.engine <> a.engine
),
joined AS (
    SELECT
        p.*,
        coalesce(x.metric, y.metric) AS metric,
        least(x.repeats, y.repeats) AS repeats,
        CASE WHEN x.lower_is_better THEN y.value / x.value ELSE x.value / y.value END AS speedup,
        CASE WHEN x.lower_is_better THEN y.lo / x.hi ELSE x.lo / y.hi END AS lo,
        CASE WHEN x.lower_is_better THEN y.hi / x.lo ELSE x.hi / y.lo END AS hi
    FROM pairs p
    JOIN serving_metrics x
        ON x.evidence = p.evidence AND x.device = p.device AND x.model = p.model
        AND x.max_concurrency IS NOT DISTINCT FROM p.max_concurrency AND x.request_rate = p.request_rate
        AND x.entrant = p.entrant
    JOIN serving_metrics y
        ON y.evidence = p.evidence AND y.device = p.device AND y.model = p.model
        AND y.max_concurrency IS NOT DISTINCT FROM p.max_concurrency AND y.request_rate = p.request_rate
        AND y.entrant = p.rival AND y.metric = x.metric
)
SELECT
    evidence,
    device,
    model,
    max_concurrency,
    request_rate,
    entrant,
    engine,
    rival,
    rival_engine,
    metric,
    CASE WHEN difference IS NULL THEN speedup END AS speedup_vs_rival,
    CASE WHEN difference IS NULL AND repeats >= min_repeats THEN lo END AS lo,
    CASE WHEN difference IS NULL AND repeats >= min_repeats THEN hi END AS hi,
    repeats,
    CASE
        WHEN difference IS NOT NULL THEN difference
        WHEN repeats < min_repeats THEN printf('%d repeats of at least %d', repeats, min_repeats)
    END AS reason
FROM joined;
