-- materialise
-- gate_results: a row is run, config; what was counted, the thresholds of the run's policy, and the verdict:
-- passed, failed, yardstick (measured, and no threshold applies), refused, void, missing, unjudged (a value or a
-- threshold is unknown). Where the stock model disagrees with itself, every configuration of the run is void.
CREATE VIEW gate_results AS
WITH joined AS (
    SELECT
        s.device,
        s.policy_sha256,
        s.last_event,
        a.*,
        c.disagreements AS stock_disagreements,
        y.agreement AS yardstick_agreement,
        t.min_positions,
        t.control_disagreements,
        t.max_large_gap_share,
        CASE a.weights WHEN 'seeded' THEN t.min_agreement_seeded ELSE t.min_agreement END AS min_agreement,
        t.max_perplexity_increase,
        t.max_drift_ratio,
        t.max_expert_error,
        t.max_gain_error,
        t.worse_alpha,
        p.pairs,
        p.stock_only_right,
        p.candidate_only_right,
        p.p_worse,
        p.p_different,
        p.excess_wrong,
        p.excess_wrong_hi
    FROM gate_attempts a
    LEFT JOIN run_status s ON s.run_id = a.run_id
    LEFT JOIN gate_attempts c ON c.run_id = a.run_id AND c.role = 'control'
    LEFT JOIN gate_attempts y ON y.run_id = a.run_id AND y.role = 'yardstick'
    LEFT JOIN gate_thresholds t ON t.policy_sha256 = s.policy_sha256 AND t.precision = a.precision
    LEFT JOIN gate_paired p ON p.run_id = a.run_id AND p.config = a.config
),
criteria AS (
    -- Of each criterion: a phrase where it is broken, '' where it holds, 'unknown NAME' where it cannot be judged.
    SELECT
        *,
        CASE role
            WHEN 'control' THEN [
                CASE WHEN positions >= min_positions THEN '' WHEN positions < min_positions
                    THEN format('{} of {} positions', positions, min_positions) ELSE 'unknown positions' END,
                CASE WHEN disagreements <= control_disagreements THEN '' WHEN disagreements > control_disagreements
                    THEN format('stock disagrees with itself at {} positions', disagreements)
                    ELSE 'unknown disagreements' END
            ]
            WHEN 'yardstick' THEN [
                CASE WHEN positions >= min_positions THEN '' WHEN positions < min_positions
                    THEN format('{} of {} positions', positions, min_positions) ELSE 'unknown positions' END
            ]
            ELSE [
                CASE WHEN positions >= min_positions THEN '' WHEN positions < min_positions
                    THEN format('{} of {} positions', positions, min_positions) ELSE 'unknown positions' END,
                CASE WHEN kernel_calls >= 1 THEN '' WHEN kernel_calls < 1
                    THEN 'its kernel ran in no call of some layer' ELSE 'unknown kernel calls' END,
                CASE WHEN agreement >= min_agreement THEN '' WHEN agreement < min_agreement
                    THEN format('agreement {:.4f} under {}', agreement, min_agreement) ELSE 'unknown agreement' END,
                CASE WHEN large_gap_share <= max_large_gap_share THEN '' WHEN large_gap_share > max_large_gap_share
                    THEN format('{} gaps over {} logits', large_gaps, large_gap_logits) ELSE 'unknown gaps' END,
                CASE WHEN perplexity_increase <= max_perplexity_increase THEN ''
                    WHEN perplexity_increase > max_perplexity_increase
                    THEN format('perplexity up by {:.4f}, over {}', perplexity_increase, max_perplexity_increase)
                    ELSE 'unknown perplexity' END,
                CASE WHEN drift_ratio <= max_drift_ratio THEN '' WHEN drift_ratio > max_drift_ratio
                    THEN format('drift {:.2f} times stock''s, over {}', drift_ratio, max_drift_ratio)
                    ELSE 'unknown drift' END,
                CASE WHEN expert_error <= max_expert_error THEN '' WHEN expert_error > max_expert_error
                    THEN format('an expert alone is off by {:.4f}, over {}', expert_error, max_expert_error)
                    ELSE 'unknown error of experts' END,
                CASE WHEN gain_error <= max_gain_error THEN '' WHEN gain_error > max_gain_error
                    THEN format('an expert alone has a gain off by {:.4f}, over {}', gain_error, max_gain_error)
                    ELSE 'unknown gain of experts' END,
                CASE WHEN worse_alpha IS NULL THEN ''
                    WHEN pairs < positions THEN format('only {} of {} positions have a pair', pairs, positions)
                    WHEN p_worse >= worse_alpha THEN '' WHEN p_worse < worse_alpha
                    THEN format('wrong more often than stock (p {:.2g})', p_worse) ELSE 'unknown pairs' END
            ]
        END AS judged
    FROM joined
)
SELECT
    * EXCLUDE (judged),
    CASE
        WHEN status <> 'measured' THEN status
        WHEN role <> 'control' AND stock_disagreements > control_disagreements THEN 'void'
        WHEN len(list_filter(judged, lambda j: j <> '' AND NOT starts_with(j, 'unknown '))) > 0 THEN 'failed'
        WHEN len(list_filter(judged, lambda j: j <> '')) > 0 THEN 'unjudged'
        WHEN role <> 'control' AND stock_disagreements IS NULL THEN 'unjudged'
        WHEN role = 'yardstick' THEN 'yardstick'
        ELSE 'passed'
    END AS verdict,
    nullif(concat_ws(
        '; ',
        CASE WHEN status = 'missing' THEN 'not measured' WHEN status <> 'measured' THEN reason_code || ': ' || detail END,
        CASE WHEN role <> 'control' AND status = 'measured' AND stock_disagreements > control_disagreements
            THEN 'the control is not clean' END,
        CASE WHEN role <> 'control' AND status = 'measured' AND stock_disagreements IS NULL THEN 'there is no control' END,
        CASE WHEN status = 'measured' THEN nullif(array_to_string(list_filter(judged, lambda j: j <> ''), '; '), '') END
    ), '') AS reason,
    CASE role WHEN 'control' THEN 0 WHEN 'yardstick' THEN 1
        ELSE 2 + 10 * coalesce(list_position(['bf16', 'int8_w8a16', 'int8_w8a8'], precision), 9)
            + coalesce(list_position(['naive', 'persistent', 'auto'], candidate), 9) END AS config_order
FROM criteria;
