-- gate_thresholds: a row is policy, precision; what the policy asks of a configuration of that precision.
CREATE VIEW gate_thresholds AS
WITH bounds AS (
    SELECT policy_sha256, key, TRY_CAST(value AS DOUBLE) AS value FROM policy_values WHERE starts_with(key, 'gate.')
),
precisions AS (
    SELECT DISTINCT policy_sha256, unnest(['bf16', 'int8_w8a16', 'int8_w8a8']) AS precision FROM bounds
)
SELECT
    p.policy_sha256,
    p.precision,
    max(b.value) FILTER (WHERE b.key = 'gate.min_positions')::BIGINT AS min_positions,
    max(b.value) FILTER (WHERE b.key = 'gate.control_disagreements')::BIGINT AS control_disagreements,
    max(b.value) FILTER (WHERE b.key = 'gate.large_gap_logits') AS large_gap_logits,
    max(b.value) FILTER (WHERE b.key = 'gate.max_large_gap_share.' || p.precision) AS max_large_gap_share,
    max(b.value) FILTER (WHERE b.key = 'gate.min_agreement.' || p.precision) AS min_agreement,
    max(b.value) FILTER (WHERE b.key = 'gate.min_agreement_seeded.' || p.precision) AS min_agreement_seeded,
    max(b.value) FILTER (WHERE b.key = 'gate.max_perplexity_increase.' || p.precision) AS max_perplexity_increase,
    max(b.value) FILTER (WHERE b.key = 'gate.max_drift_ratio.' || p.precision) AS max_drift_ratio,
    max(b.value) FILTER (WHERE b.key = 'gate.max_expert_error.' || p.precision) AS max_expert_error,
    max(b.value) FILTER (WHERE b.key = 'gate.max_gain_error.' || p.precision) AS max_gain_error,
    -- NULL: a precision that may be worse than stock, within the other thresholds.
    max(b.value) FILTER (WHERE b.key = 'gate.worse_alpha.' || p.precision) AS worse_alpha
FROM precisions p
JOIN bounds b ON b.policy_sha256 = p.policy_sha256
GROUP BY p.policy_sha256, p.precision;
