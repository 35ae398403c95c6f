-- materialise
-- decode_attempts: a row is run, config that the run planned, its policy requires, or any table mentions; what its check
-- said and what was timed. status: timed; refused (in the check or while it was timed); unchecked (steps without a
-- check that passed); missing.
CREATE VIEW decode_attempts AS
WITH thresholds AS (
    SELECT policy_sha256, replace(key, '"', '') AS key, value FROM policy_values WHERE key LIKE 'decode.%'
),
decodes AS (
    SELECT
        r.run_id,
        r.device,
        r.policy_sha256,
        r.last_event,
        r.plan_json,
        TRY_CAST(max(t.value) FILTER (WHERE t.key = 'decode.min_repeats') AS BIGINT) AS min_repeats,
        TRY_CAST(coalesce(
            max(t.value) FILTER (WHERE t.key = 'decode.min_steps.' || r.device),
            max(t.value) FILTER (WHERE t.key = 'decode.min_steps.default')
        ) AS BIGINT) AS min_steps,
        coalesce(
            max(t.value) FILTER (WHERE t.key = 'decode.required.' || r.device),
            max(t.value) FILTER (WHERE t.key = 'decode.required.default')
        ) AS required
    FROM run_status r
    LEFT JOIN thresholds t ON t.policy_sha256 = r.policy_sha256
    WHERE r.producer = 'decode'
    GROUP BY r.run_id, r.device, r.policy_sha256, r.last_event, r.plan_json
),
required AS (
    SELECT run_id, unnest(from_json(required, '["VARCHAR"]')) AS config FROM decodes
),
everything AS (
    SELECT run_id, config FROM required
    UNION SELECT run_id, unnest(json_extract_string(plan_json, '$.config[*]')) FROM decodes WHERE json_valid(plan_json)
    UNION SELECT run_id, config FROM decode_configs
    UNION SELECT run_id, config FROM decode_steps
),
checks AS (
    SELECT * FROM decode_configs WHERE stage = 'check'
),
refusals AS (
    SELECT
        run_id,
        config,
        arg_max(stage, recorded_at) AS stage,
        arg_max(reason_code, recorded_at) AS reason_code,
        arg_max(fault, recorded_at) AS fault,
        arg_max(detail, recorded_at) AS detail,
        max(model) AS model
    FROM decode_configs
    WHERE status = 'refused'
    GROUP BY run_id, config
),
timed AS (
    SELECT
        run_id,
        config,
        one_or_two(model) AS model,
        any_value(precision) AS precision,
        bool_or(graph) AS graph,
        count(*) AS repeats,
        min(steps) AS steps,
        max(weight_bytes) AS weight_bytes,
        min(least_step_us) AS least_step_us,
        one_or_two(prompt_sha256) AS prompt_sha256,
        count(DISTINCT output_sha256) AS outputs
    FROM decode_repeats
    GROUP BY run_id, config
)
SELECT
    e.run_id,
    coalesce(d.device, 'unknown') AS device,
    coalesce(
        t.model, c.model, r.model, json_extract_string(d.plan_json, '$.model'),
        max(coalesce(t.model, c.model)) OVER (PARTITION BY e.run_id), 'unknown'
    ) AS model,
    c.weights,
    c.model_sha256,
    e.config,
    q.config IS NOT NULL AS required,
    CASE
        WHEN r.config IS NOT NULL THEN 'refused'
        WHEN t.repeats IS NULL THEN 'missing'
        WHEN c.status IS NULL THEN 'unchecked'
        ELSE 'timed'
    END AS status,
    r.stage AS refused_in,
    r.reason_code,
    r.fault,
    r.detail,
    c.experts,
    c.layers,
    coalesce(c.precision, t.precision) AS precision,
    coalesce(c.graph, t.graph) AS graph,
    c.clock,
    c.prompt_tokens,
    coalesce(t.prompt_sha256, c.prompt_sha256) AS prompt_sha256,
    c.reference,
    c.positions,
    c.disagreements,
    1 - c.disagreements / nullif(c.positions, 0) AS agreement,
    c.first_disagreement,
    c.first_gap_logits,
    c.largest_gap_logits,
    c.large_gaps,
    c.kernel_calls,
    c.kernels,
    coalesce(t.weight_bytes, c.weight_bytes) AS weight_bytes,
    c.peak_memory_bytes,
    coalesce(t.repeats, 0) AS repeats,
    coalesce(t.steps, 0) AS steps,
    t.least_step_us,
    t.outputs,
    d.min_repeats,
    d.min_steps,
    d.last_event
FROM everything e
LEFT JOIN decodes d ON d.run_id = e.run_id
LEFT JOIN required q ON q.run_id = e.run_id AND q.config = e.config
LEFT JOIN checks c ON c.run_id = e.run_id AND c.config = e.config
LEFT JOIN refusals r ON r.run_id = e.run_id AND r.config = e.config
LEFT JOIN timed t ON t.run_id = e.run_id AND t.config = e.config;
