-- materialise
-- winners: a row is device, cell, mode. The latest complete run speaks (the latest where none is complete). Runs
-- under equal conditions (device, driver, power limit, L2 state, versions of every required contestant) that name
-- different houses, or a winner and a tie, leave the cell inconclusive. Every run is counted: running again until
-- it wins shows. Informational contestants decide nothing; those faster than the winner are named.
CREATE VIEW winners AS
WITH ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY device, cell_id, timing_mode ORDER BY outcome <> 'incomplete' DESC, run_id DESC
        ) AS place
    FROM run_outcomes
),
speaking AS (
    SELECT * FROM ranked WHERE place = 1
),
repeats AS (
    SELECT
        s.device,
        s.cell_id,
        s.timing_mode,
        count(*) AS runs,
        count(*) FILTER (WHERE r.outcome <> 'incomplete') AS complete_runs,
        count(*) FILTER (WHERE r.conditions_key = s.conditions_key AND r.outcome <> 'incomplete') AS equal_runs,
        count(*) FILTER (WHERE r.conditions_key IS DISTINCT FROM s.conditions_key) AS other_runs,
        string_agg(r.run_id, ', ' ORDER BY r.run_id) AS run_ids,
        count(DISTINCT coalesce(r.house, 'nobody'))
            FILTER (WHERE r.conditions_key = s.conditions_key AND r.outcome IN ('win', 'tie')) AS verdicts,
        string_agg(r.run_id || ' says ' || coalesce(r.outcome || ' of ' || r.winner, 'tie'), '; ' ORDER BY r.run_id)
            FILTER (WHERE r.conditions_key = s.conditions_key AND r.outcome IN ('win', 'tie')) AS sayings
    FROM speaking s
    JOIN run_outcomes r ON r.device = s.device AND r.cell_id = s.cell_id AND r.timing_mode = s.timing_mode
    GROUP BY s.device, s.cell_id, s.timing_mode
),
agreed AS (
    SELECT
        s.*,
        r.* EXCLUDE (device, cell_id, timing_mode),
        r.verdicts > 1 AND s.outcome <> 'incomplete' AS disagree
    FROM speaking s
    JOIN repeats r ON r.device = s.device AND r.cell_id = s.cell_id AND r.timing_mode = s.timing_mode
),
faster AS (
    SELECT
        s.device,
        s.cell_id,
        s.timing_mode,
        string_agg(r.contestant, ', ' ORDER BY r.contestant) AS informational_faster
    FROM speaking s
    JOIN ratios r
        ON r.run_id = s.run_id AND r.cell_id = s.cell_id AND r.timing_mode = s.timing_mode AND r.rival = s.winner
    WHERE r.role = 'informational' AND r.speedup_vs_rival > 1 + s.tie_band
    GROUP BY s.device, s.cell_id, s.timing_mode
)
SELECT
    a.device,
    a.workload,
    a.precision,
    a.routing,
    a.tokens,
    a.timing_mode,
    a.cell_id,
    a.run_id,
    CASE WHEN a.disagree THEN 'inconclusive' ELSE a.outcome END AS outcome,
    CASE WHEN a.disagree THEN 'inconclusive: runs disagree: ' || a.sayings ELSE a.outcome_text END AS outcome_text,
    CASE WHEN NOT a.disagree THEN a.winner END AS winner,
    CASE WHEN NOT a.disagree THEN a.house END AS house,
    a.leader,
    a.runner_up,
    a.margin,
    a.margin_lo,
    a.margin_hi,
    a.margin_lo_wide,
    a.margin_hi_wide,
    a.wins_over_all AND NOT a.disagree AS wins_over_all,
    a.win_holds_wide AND NOT a.disagree AS win_holds_wide,
    CASE WHEN NOT a.disagree THEN a.tied END AS tied,
    a.required,
    a.measured,
    a.refused,
    a.missing,
    CASE WHEN NOT a.disagree THEN f.informational_faster END AS informational_faster,
    CASE WHEN a.disagree THEN 'runs disagree: ' || a.sayings ELSE a.reason END AS reason,
    a.time_us,
    a.rounds,
    a.sessions,
    a.noise_floor,
    a.tie_band,
    a.runs,
    a.complete_runs,
    a.equal_runs,
    a.other_runs,
    a.run_ids,
    a.policy_sha256
FROM agreed a
LEFT JOIN faster f ON f.device = a.device AND f.cell_id = a.cell_id AND f.timing_mode = a.timing_mode;
