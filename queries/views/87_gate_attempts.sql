-- materialise
-- gate_attempts: a row is run, config that the run planned, its policy requires, or any table mentions; the last attempt
-- at it and what that counted. 'measured' needs every position: a run that was killed in between has none.
CREATE VIEW gate_attempts AS
WITH gates AS (
    SELECT run_id, policy_sha256, plan_json FROM run_status WHERE producer = 'gate'
),
required AS (
    SELECT g.run_id, unnest(from_json(p.value, '["VARCHAR"]')) AS config
    FROM gates g
    JOIN policy_values p ON p.policy_sha256 = g.policy_sha256 AND p.key = 'gate.required'
),
everything AS (
    SELECT run_id, config FROM required
    UNION SELECT run_id, unnest(json_extract_string(plan_json, '$.config[*]')) FROM gates WHERE json_valid(plan_json)
    UNION SELECT run_id, config FROM gate_configs
    UNION SELECT run_id, config FROM gate_positions
),
last_attempts AS (
    SELECT * FROM gate_configs
    QUALIFY row_number() OVER (PARTITION BY run_id, config ORDER BY attempt DESC) = 1
),
counted AS (
    SELECT
        p.run_id,
        p.config,
        count(*) AS positions,
        count(*) FILTER (WHERE NOT p.agree) AS disagreements,
        avg(p.agree::INTEGER) AS agreement,
        count(*) FILTER (WHERE NOT p.agree AND p.reference_gap_logits > t.large_gap_logits) AS large_gaps,
        max(CASE WHEN p.agree THEN 0 ELSE p.reference_gap_logits END) AS widest_gap_logits,
        exp(avg(p.candidate_nll)) AS perplexity,
        exp(avg(p.reference_nll)) AS reference_perplexity,
        min(p.kernel_calls) AS kernel_calls,
        one_or_two(p.tokens_sha256) AS tokens_sha256,
        any_value(t.large_gap_logits) AS large_gap_logits
    FROM gate_positions p
    LEFT JOIN gates g ON g.run_id = p.run_id
    LEFT JOIN gate_thresholds t ON t.policy_sha256 = g.policy_sha256 AND t.precision = 'bf16'
    GROUP BY p.run_id, p.config
),
alone AS (
    SELECT
        run_id,
        config,
        attempt,
        count(*) AS experts,
        max(relative_error) AS expert_error,
        max(abs(gain - 1)) AS gain_error
    FROM gate_experts
    GROUP BY run_id, config, attempt
),
drift AS (
    SELECT
        run_id,
        config,
        max(mean_drift) AS worst_layer_drift,
        max(largest_drift) AS largest_drift,
        max(drift_ratio) AS drift_ratio
    FROM gate_layer_drift
    GROUP BY run_id, config
)
SELECT
    e.run_id,
    e.config,
    r.config IS NOT NULL AS required,
    CASE e.config WHEN 'stock_vs_stock' THEN 'control' WHEN 'stock_bf16_vs_float32' THEN 'yardstick'
        ELSE 'candidate' END AS role,
    coalesce(l.candidate, split_part(e.config, '_', 1)) AS candidate,
    coalesce(l.precision, regexp_extract(e.config, 'bf16|int8_w8a16|int8_w8a8')) AS precision,
    l.reference,
    l.reference_sha256,
    CASE WHEN l.config IS NULL THEN 'missing'
        WHEN l.status = 'measured' AND c.positions IS DISTINCT FROM l.positions THEN 'missing'
        ELSE l.status END AS status,
    l.reason_code,
    l.fault,
    l.detail,
    l.attempt,
    l.model,
    l.weights,
    l.model_sha256,
    l.text_sha256,
    coalesce(c.tokens_sha256, l.tokens_sha256) AS tokens_sha256,
    l.context_tokens,
    l.duration_s,
    l.expert_bytes_before,
    l.expert_bytes_after,
    l.peak_memory_bytes,
    coalesce(c.positions, 0) AS positions,
    c.disagreements,
    c.agreement,
    c.large_gap_logits,
    CASE WHEN c.large_gap_logits IS NOT NULL THEN c.large_gaps END AS large_gaps,
    CASE WHEN c.large_gap_logits IS NOT NULL THEN c.large_gaps / c.positions END AS large_gap_share,
    c.widest_gap_logits,
    c.perplexity,
    c.reference_perplexity,
    c.perplexity / c.reference_perplexity - 1 AS perplexity_increase,
    c.kernel_calls,
    d.worst_layer_drift,
    d.largest_drift,
    d.drift_ratio,
    a.experts,
    a.expert_error,
    a.gain_error
FROM everything e
LEFT JOIN required r ON r.run_id = e.run_id AND r.config = e.config
LEFT JOIN last_attempts l ON l.run_id = e.run_id AND l.config = e.config
LEFT JOIN counted c ON c.run_id = e.run_id AND c.config = e.config
LEFT JOIN alone a ON a.run_id = e.run_id AND a.config = e.config AND a.attempt = l.attempt
LEFT JOIN drift d ON d.run_id = e.run_id AND d.config = e.config;
