-- materialise
-- run_policy: a row is a run; the thresholds of the policy that it was registered under (NULL: not in the lake).
CREATE VIEW run_policy AS
WITH thresholds AS (
    SELECT policy_sha256, replace(key, '"', '') AS key, TRY_CAST(value AS DOUBLE) AS value FROM policy_values
)
SELECT
    r.run_id,
    max(t.value) FILTER (WHERE t.key = 'race.min_rounds')::INTEGER AS min_rounds,
    max(t.value) FILTER (WHERE t.key = 'race.min_sessions')::INTEGER AS min_sessions,
    max(t.value) FILTER (WHERE t.key = 'race.tie_band') AS tie_band,
    max(t.value) FILTER (WHERE t.key = 'race.confidence') AS confidence,
    max(t.value) FILTER (WHERE t.key = 'race.confidence_many') AS confidence_many,
    max(t.value) FILTER (WHERE t.key = 'race.noise_quantile') AS noise_quantile,
    coalesce(
        max(t.value) FILTER (WHERE t.key = 'race.max_noise_floor.' || r.device),
        max(t.value) FILTER (WHERE t.key = 'race.max_noise_floor.default')
    ) AS max_noise_floor,
    max(t.value) FILTER (WHERE t.key = 'race.floor.refuse_below_datasheet') AS refuse_below_datasheet,
    max(t.value) FILTER (
        WHERE t.key = 'race.floor.datasheet.' || r.device || '.bytes_per_s'
    ) AS datasheet_bytes_per_s,
    max(t.value) FILTER (
        WHERE t.key = 'race.floor.datasheet.' || r.device || '.bf16_ops_per_s'
    ) AS datasheet_bf16_ops_per_s,
    max(t.value) FILTER (
        WHERE t.key = 'race.floor.datasheet.' || r.device || '.int8_ops_per_s'
    ) AS datasheet_int8_ops_per_s
FROM run_status r
LEFT JOIN thresholds t ON t.policy_sha256 = r.policy_sha256
GROUP BY r.run_id;
