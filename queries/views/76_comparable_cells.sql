-- materialise
-- comparable_cells: a row is a row of winners; complete: its figures can be compared at all; decisive: one contestant
-- can be said to beat another in it, since runs agree, rounds, sessions and order are what the policy asks for, and the
-- noise floor of the mode is within its bound.
CREATE VIEW comparable_cells AS
SELECT
    w.device,
    w.workload,
    w.precision,
    w.routing,
    w.tokens,
    w.timing_mode,
    w.cell_id,
    w.run_id,
    w.policy_sha256,
    w.outcome,
    w.outcome_text,
    w.winner,
    w.house,
    w.wins_over_all,
    w.win_holds_wide,
    w.tie_band,
    w.reason,
    w.outcome <> 'incomplete' AS complete,
    w.outcome <> 'incomplete' AND NOT coalesce(w.reason LIKE 'runs disagree%', FALSE)
        AND coalesce(w.rounds >= p.min_rounds AND w.sessions >= p.min_sessions AND o.shuffled, FALSE)
        AND NOT coalesce(n.noise_floor > p.max_noise_floor, FALSE) AS decisive
FROM winners w
LEFT JOIN run_policy p ON p.run_id = w.run_id
LEFT JOIN noise_floors n ON n.run_id = w.run_id AND n.timing_mode = w.timing_mode
LEFT JOIN round_orders o ON o.run_id = w.run_id AND o.timing_mode = w.timing_mode;
