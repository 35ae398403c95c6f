-- serving: a row is cell, metric: which engine leads. Served engines are a reference of their own: nothing here
-- meets a kernel race or decode inside a model. outcome:
--   leads           measured, and its whole interval is better than that of every other engine
--   level           measured, comparable, and no engine's interval is apart from all others
--   faster (point figures)   imported or published figures of equal work, more than 1 % apart: never a win
--   no comparison   the work, the client or another condition differs, or repeats are too few: reason says which
--   sole entrant    one engine alone
CREATE VIEW serving AS
WITH cells AS (
    SELECT
        m.evidence, m.device, m.model, m.max_concurrency, m.request_rate, m.metric,
        count(DISTINCT m.engine) AS engines,
        string_agg(printf('%s %.4g [%.4g, %.4g]', m.entrant, m.value, m.lo, m.hi), ', ' ORDER BY m.entrant) AS figures,
        min(m.repeats) AS repeats
    FROM serving_metrics m
    GROUP BY m.evidence, m.device, m.model, m.max_concurrency, m.request_rate, m.metric
),
entrants AS (
    SELECT
        evidence, device, model, max_concurrency, request_rate, metric, entrant, engine,
        bool_and(coalesce(lo > 1, FALSE)) AS apart,
        bool_and(coalesce(speedup_vs_rival > 1.01, FALSE)) AS ahead,
        min(speedup_vs_rival) AS margin
    FROM serving_pairs
    GROUP BY evidence, device, model, max_concurrency, request_rate, metric, entrant, engine
),
best AS (
    SELECT
        evidence, device, model, max_concurrency, request_rate, metric,
        -- Two settings of one engine may both be apart: the better one leads, with the margin that is its own.
        first(entrant ORDER BY margin DESC, entrant) FILTER (WHERE apart) AS leader,
        max(margin) FILTER (WHERE apart) AS leader_margin,
        first(entrant ORDER BY margin DESC, entrant) FILTER (WHERE ahead) AS ahead,
        max(margin) FILTER (WHERE ahead) AS ahead_margin
    FROM entrants
    GROUP BY evidence, device, model, max_concurrency, request_rate, metric
),
reasons AS (
    SELECT
        evidence, device, model, max_concurrency, request_rate, metric,
        bool_and(speedup_vs_rival IS NOT NULL) AS comparable,
        bool_and(lo IS NOT NULL) AS repeated,
        string_agg(DISTINCT printf('%s and %s: %s', entrant, rival, reason), '; ') FILTER (
            WHERE reason IS NOT NULL AND entrant < rival
        ) AS reason
    FROM serving_pairs
    GROUP BY evidence, device, model, max_concurrency, request_rate, metric
),
refusals AS (
    SELECT
        evidence,
        coalesce(device, 'unknown') AS device,
        coalesce(model, 'unknown') AS model,
        max_concurrency,
        CASE WHEN request_rate_mode = 'fixed' THEN printf('%g/s', request_rate_per_s)
            ELSE coalesce(request_rate_mode, 'unknown') END AS request_rate,
        string_agg(DISTINCT engine, ', ' ORDER BY engine) AS refused
    FROM serving_runs
    WHERE status <> 'passed'
    GROUP BY ALL
),
judged AS (
    SELECT
        c.*,
        CASE
            WHEN c.engines = 1 THEN 'sole entrant'
            WHEN NOT coalesce(r.comparable, FALSE) THEN 'no comparison'
            WHEN c.evidence <> 'measured' THEN CASE WHEN b.ahead IS NULL THEN 'level' ELSE 'faster (point figures)' END
            WHEN NOT r.repeated THEN 'no comparison'
            WHEN b.leader IS NULL THEN 'level'
            ELSE 'leads'
        END AS outcome,
        b.leader,
        b.ahead,
        b.leader_margin,
        b.ahead_margin,
        r.reason,
        f.refused
    FROM cells c
    LEFT JOIN best b
        ON b.evidence = c.evidence AND b.device = c.device AND b.model = c.model
        AND b.max_concurrency IS NOT DISTINCT FROM c.max_concurrency AND b.request_rate = c.request_rate
        AND b.metric = c.metric
    LEFT JOIN reasons r
        ON r.evidence = c.evidence AND r.device = c.device AND r.model = c.model
        AND r.max_concurrency IS NOT DISTINCT FROM c.max_concurrency AND r.request_rate = c.request_rate
        AND r.metric = c.metric
    LEFT JOIN refusals f
        ON f.evidence = c.evidence AND f.device = c.device AND f.model = c.model
        AND f.max_concurrency IS NOT DISTINCT FROM c.max_concurrency AND f.request_rate = c.request_rate
)
SELECT
    evidence,
    device,
    model,
    max_concurrency,
    request_rate,
    metric,
    outcome,
    CASE WHEN outcome = 'leads' THEN leader END AS leader,
    CASE WHEN outcome = 'faster (point figures)' THEN ahead END AS faster,
    CASE outcome WHEN 'leads' THEN leader_margin WHEN 'faster (point figures)' THEN ahead_margin END AS margin,
    figures,
    repeats,
    CASE WHEN outcome = 'no comparison' THEN coalesce(reason, 'not every engine has the figure') END AS reason,
    refused
FROM judged;
