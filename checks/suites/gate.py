"""Correctness gate: next-token decisions of a candidate beside the stock model's, judged by the policy."""

from checks.model import AtLeast, Between, Rule, Suite

# One row a run and configuration. The thresholds are those of the run's policy for the configuration's
# precision (its name ends in it); a configuration without a threshold cannot be judged.
CONFIGS = """
    WITH bounds AS (
        SELECT policy_sha256, key, TRY_CAST(value AS DOUBLE) AS value FROM policy_values
    ),
    configs AS (
        SELECT
            g.run_id, g.config, s.policy_sha256,
            regexp_extract(g.config, 'bf16|int8_w8a16|int8_w8a8') AS precision,
            count(*) AS positions,
            count(*) FILTER (WHERE NOT g.agree) AS disagreements,
            avg(g.agree::INTEGER) AS agreement,
            avg((NOT g.agree AND g.reference_gap_logits > l.value)::INTEGER) AS large_gap_share,
            exp(avg(g.candidate_nll)) / exp(avg(g.reference_nll)) - 1 AS perplexity_increase,
            min(g.kernel_calls) AS kernel_calls,
            g.config = 'stock_vs_stock' AS control
        FROM gate_positions g
        LEFT JOIN run_status s ON s.run_id = g.run_id
        LEFT JOIN bounds l ON l.policy_sha256 = s.policy_sha256 AND l.key = 'gate.large_gap_logits'
        GROUP BY g.run_id, g.config, s.policy_sha256
    )
    SELECT c.*, p.value AS min_positions, d.value AS allowed_disagreements, a.value AS min_agreement,
        m.value AS max_large_gap_share, i.value AS max_perplexity_increase
    FROM configs c
    LEFT JOIN bounds p ON p.policy_sha256 = c.policy_sha256 AND p.key = 'gate.min_positions'
    LEFT JOIN bounds d ON d.policy_sha256 = c.policy_sha256 AND d.key = 'gate.control_disagreements'
    LEFT JOIN bounds a ON a.policy_sha256 = c.policy_sha256 AND a.key = 'gate.min_agreement.' || c.precision
    LEFT JOIN bounds m
        ON m.policy_sha256 = c.policy_sha256 AND m.key = 'gate.max_large_gap_share.' || c.precision
    LEFT JOIN bounds i
        ON i.policy_sha256 = c.policy_sha256 AND i.key = 'gate.max_perplexity_increase.' || c.precision
"""

GATE = Suite(
    "gate",
    "candidates decide like the stock model, within the policy",
    (
        Rule(
            "gate.control",
            "The stock model against itself disagrees no more than the policy allows.",
            f"{CONFIGS} WHERE c.control ORDER BY c.run_id",
            (AtLeast("allowed_disagreements", "disagreements"),),
            "run {run_id}: the stock model disagrees with itself at {disagreements} of {positions} positions",
            empty="the gate has no control (stock_vs_stock)",
        ),
        Rule(
            "gate.positions",
            "Each configuration was compared at as many positions as the policy asks for.",
            f"{CONFIGS} ORDER BY c.run_id, c.config",
            (AtLeast("positions", "min_positions"),),
            "run {run_id}: {config} has {positions} of {min_positions} positions",
        ),
        Rule(
            "gate.kernels-called",
            "The kernel under test was really called in every layer.",
            f"{CONFIGS} WHERE NOT c.control ORDER BY c.run_id, c.config",
            (Between("kernel_calls", low=1),),
            "run {run_id}: {config} called its kernel {kernel_calls} times in some layer",
            empty="the gate has no candidate",
        ),
        Rule(
            "gate.agreement",
            "Each candidate agrees as often, and disagrees as mildly, as the policy of its precision asks.",
            f"{CONFIGS} WHERE NOT c.control ORDER BY c.run_id, c.config",
            (
                AtLeast("agreement", "min_agreement"),
                AtLeast("max_large_gap_share", "large_gap_share"),
                AtLeast("max_perplexity_increase", "perplexity_increase"),
            ),
            "run {run_id}: {config} agrees in {agreement} (at least {min_agreement}), large gaps "
            "{large_gap_share} (at most {max_large_gap_share}), perplexity {perplexity_increase} (at most "
            "{max_perplexity_increase})",
            empty="the gate has no candidate",
        ),
    ),
    tables=("gate_positions",),
)
