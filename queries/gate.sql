-- Every configuration of the gate's runs: decisions beside the stock model's, and what the run's policy says of them.
-- duckdb -readonly warehouse.db < queries/gate.sql
.maxrows 1000000
SELECT
    r.device,
    r.model,
    g.weights,
    r.run_id,
    r.speaks,
    r.context_tokens AS context,
    g.config,
    g.positions,
    g.disagreements,
    g.large_gaps AS large_gap,
    round(g.widest_gap_logits, 3) AS widest_gap,
    round(100 * g.agreement, 3) AS top1_agreement_pct,
    round(100 * g.yardstick_agreement, 3) AS stock_vs_float32_pct,
    g.stock_only_right,
    g.candidate_only_right,
    round(g.p_worse, 4) AS mcnemar_p_worse,
    round(100 * g.excess_wrong_hi, 3) AS excess_wrong_pct_at_most,
    round(g.perplexity, 4) AS perplexity,
    round(100 * g.perplexity_increase, 4) AS perplexity_increase_pct,
    round(g.worst_layer_drift, 5) AS worst_layer_drift,
    round(g.drift_ratio, 3) AS drift_ratio,
    round(g.expert_error, 5) AS expert_error,
    round(g.gain_error, 6) AS gain_error,
    g.kernel_calls,
    g.verdict,
    g.reason
FROM gate_results g
JOIN gate_runs r USING (run_id)
ORDER BY r.device, r.model, r.run_id, g.config_order, g.config;
