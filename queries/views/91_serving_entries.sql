-- serving_entries: a row is a served run with usable figures (measured or imported), its cell (evidence, device,
-- model, max_concurrency, request_rate), its entrant (engine, version, setting, client) and what its tokens cost.
-- Of an entrant that was measured in several runs the latest speaks.
CREATE VIEW serving_entries AS
WITH thresholds AS (
    SELECT
        r.run_id,
        max(TRY_CAST(v.value AS DOUBLE)) FILTER (WHERE v.key = 'serving.token_tolerance') AS token_tolerance,
        max(TRY_CAST(v.value AS DOUBLE)) FILTER (WHERE v.key = 'serving.max_failure_share') AS max_failure_share,
        max(TRY_CAST(v.value AS INTEGER)) FILTER (WHERE v.key = 'serving.min_repeats') AS min_repeats
    FROM (SELECT DISTINCT run_id, policy_sha256 FROM runs WHERE policy_sha256 IS NOT NULL) r
    JOIN policy_values v USING (policy_sha256)
    GROUP BY r.run_id
),
entries AS (
    SELECT
        s.* EXCLUDE (device, model),
        coalesce(s.device, 'unknown') AS device,
        coalesce(s.model, 'unknown') AS model,
        CASE
            WHEN s.request_rate_mode = 'fixed' THEN printf('%g/s', s.request_rate_per_s)
            ELSE coalesce(s.request_rate_mode, 'unknown')
        END AS request_rate,
        -- What did not end as a usable success: failed, or completed without a token. Where two counts of a foreign
        -- file disagree the worse holds, and more successes than requests say nothing.
        CASE WHEN s.requests_completed > s.requests_asked THEN NULL ELSE greatest(
            (s.requests_asked - s.requests_completed) / nullif(s.requests_asked, 0)::DOUBLE,
            s.requests_failed / nullif(s.requests_completed + s.requests_failed, 0)::DOUBLE
        ) END AS failure_share,
        -- The policy that the run was registered under; an import has none.
        coalesce(t.token_tolerance, 0.01) AS token_tolerance,
        coalesce(t.max_failure_share, 0.01) AS max_failure_share,
        coalesce(t.min_repeats, 3) AS min_repeats,
        1e6 * c.rate_usd_per_h / 3600 / nullif(s.output_tokens_per_s, 0) AS usd_per_million_by_rate,
        1e6 * c.billed_usd_per_h / 3600 / nullif(s.output_tokens_per_s, 0) AS usd_per_million_by_billing
    FROM serving_runs s
    LEFT JOIN thresholds t USING (run_id)
    LEFT JOIN serving_costs c USING (run_id)
    WHERE s.status = 'passed'
),
settled AS (
    SELECT
        *,
        dense_rank() OVER (
            PARTITION BY evidence, device, model, max_concurrency, request_rate, engine, engine_version
            ORDER BY client, client_version, weights, prefix_cache, server_args_json, input_tokens_asked,
                output_tokens_asked, requests_asked,
                -- A file that does not say what was asked: other work is no repeat. Steps of 2 % in what was done.
                CASE WHEN input_tokens_asked IS NULL THEN round(50 * ln(nullif(input_tokens, 0))) END,
                CASE WHEN output_tokens_asked IS NULL THEN round(50 * ln(nullif(output_tokens, 0))) END
        ) AS setting,
        max(run_id) OVER (
            PARTITION BY evidence, device, model, max_concurrency, request_rate, engine, engine_version, client,
                client_version, weights, prefix_cache, server_args_json, input_tokens_asked, output_tokens_asked,
                requests_asked
        ) AS latest_run
    FROM entries
)
SELECT
    * EXCLUDE (latest_run),
    engine || coalesce(' ' || engine_version, '') || CASE WHEN setting > 1 THEN printf(' (setting %d)', setting) ELSE '' END
        AS entrant
FROM settled
WHERE run_id IS NOT DISTINCT FROM latest_run;
