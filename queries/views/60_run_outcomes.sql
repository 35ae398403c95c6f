-- materialise
-- run_outcomes: a row is run, cell, mode; what that run alone says. Only required contestants decide, a win is over
-- every required rival of every other house, and nothing is decided while one of them is missing.
CREATE VIEW run_outcomes AS
WITH field AS (
    SELECT
        run_id,
        cell_id,
        timing_mode,
        string_agg(contestant, ', ' ORDER BY contestant) AS required,
        count(*) FILTER (WHERE usable) AS usable,
        count(DISTINCT house) FILTER (WHERE usable) AS usable_houses,
        string_agg(contestant, ', ' ORDER BY contestant) FILTER (WHERE usable) AS measured,
        string_agg(contestant || ' (' || reason_code || ')', ', ' ORDER BY contestant)
            FILTER (WHERE own_fault) AS refused,
        list(house) FILTER (WHERE own_fault) AS refused_houses,
        string_agg(contestant || ' (' || reason_code || ')', ', ' ORDER BY contestant)
            FILTER (WHERE NOT usable AND NOT own_fault) AS missing,
        string_agg(contestant || ': ' || reason_code || coalesce(', ' || detail, ''), '; ' ORDER BY contestant)
            FILTER (WHERE NOT usable AND NOT own_fault) AS missing_details,
        min(rounds) FILTER (WHERE usable) AS rounds,
        min(sessions) FILTER (WHERE usable) AS sessions,
        arg_min(contestant, {'time': time_us, 'name': contestant}) FILTER (WHERE usable) AS leader,
        one_or_two(l2_state) AS l2_state,
        string_agg(version, ',' ORDER BY contestant) AS versions
    FROM required_field
    GROUP BY run_id, cell_id, timing_mode
),
obstacles AS (
    SELECT
        run_id,
        cell_id,
        timing_mode,
        min(difference) AS difference,
        min(no_interval) AS no_interval,
        min(shared_rounds) AS shared_rounds,
        arg_min(contestant, {'time': time_us, 'name': contestant}) FILTER (WHERE beats_all) AS champion
    FROM required_records
    GROUP BY run_id, cell_id, timing_mode
),
judged AS (
    SELECT
        c.*,
        s.device,
        s.policy_sha256,
        f.* EXCLUDE (run_id, cell_id, timing_mode),
        o.champion,
        n.noise_floor,
        n.tie_band,
        least(f.rounds, o.shared_rounds) AS rounds_shared,
        concat_ws(';', s.device, s.driver_version, s.power_limit_w, f.l2_state, f.versions) AS conditions_key,
        CASE
            WHEN f.required IS NULL
                THEN {'outcome': 'incomplete', 'reason': 'no required contestant in roster or policy'}
            WHEN f.missing IS NOT NULL THEN {'outcome': 'incomplete', 'reason': f.missing_details}
            WHEN f.usable = 0
                THEN {'outcome': 'incomplete', 'reason': 'every required contestant is refused: ' || f.refused}
            WHEN o.difference IS NOT NULL THEN {'outcome': 'incomplete', 'reason': o.difference}
            WHEN f.usable_houses < 2
                THEN {'outcome': 'sole entrant', 'reason': 'no measured required rival of another house'}
            WHEN p.min_rounds IS NULL OR p.min_sessions IS NULL OR p.tie_band IS NULL OR p.confidence IS NULL
                OR p.confidence_many IS NULL OR p.noise_quantile IS NULL
                THEN {'outcome': 'inconclusive', 'reason': 'the policy of the run is not in the lake'}
            WHEN n.noise_floor IS NULL THEN {'outcome': 'inconclusive', 'reason': 'no A/A control'}
            WHEN n.noise_floor > p.max_noise_floor THEN {
                'outcome': 'inconclusive',
                'reason': printf(
                    'the noise floor %.4f is over the policy''s %.4f, so this mode decides nothing',
                    n.noise_floor, p.max_noise_floor
                )
            }
            WHEN NOT q.shuffled
                THEN {'outcome': 'inconclusive', 'reason': 'every round has the same order of contestants'}
            WHEN rounds_shared < p.min_rounds
                THEN {'outcome': 'inconclusive', 'reason': printf('%d of %d rounds', rounds_shared, p.min_rounds)}
            WHEN f.sessions < p.min_sessions
                THEN {'outcome': 'inconclusive', 'reason': printf('%d of %d sessions', f.sessions, p.min_sessions)}
            WHEN o.no_interval IS NOT NULL THEN {'outcome': 'inconclusive', 'reason': o.no_interval}
            WHEN o.champion IS NOT NULL THEN {'outcome': 'win', 'reason': NULL}
            WHEN len(l.level_with) > 0 THEN {'outcome': 'tie', 'reason': NULL}
            ELSE {
                'outcome': 'inconclusive',
                'reason': printf(
                    '%s against %s is %.4f [%.4f, %.4f], the band is %.4f',
                    f.leader, l.unbeaten.rival, l.unbeaten.speedup, l.unbeaten.lo, l.unbeaten.hi, n.tie_band
                )
            }
        END AS verdict,
        l.level_with
    FROM run_cells c
    JOIN run_status s ON s.run_id = c.run_id
    JOIN run_policy p ON p.run_id = c.run_id
    LEFT JOIN field f ON f.run_id = c.run_id AND f.cell_id = c.cell_id AND f.timing_mode = c.timing_mode
    LEFT JOIN obstacles o ON o.run_id = c.run_id AND o.cell_id = c.cell_id AND o.timing_mode = c.timing_mode
    LEFT JOIN noise_floors n ON n.run_id = c.run_id AND n.timing_mode = c.timing_mode
    LEFT JOIN round_orders q ON q.run_id = c.run_id AND q.timing_mode = c.timing_mode
    LEFT JOIN required_records l
        ON l.run_id = c.run_id AND l.cell_id = c.cell_id AND l.timing_mode = c.timing_mode AND l.contestant = f.leader
    WHERE s.producer IN ('race', 'unregistered')
),
decided AS (
    SELECT
        * EXCLUDE (verdict, leader, champion, level_with),
        verdict.outcome AS outcome,
        verdict.reason AS reason,
        CASE WHEN verdict.outcome = 'win' THEN champion END AS winner,
        CASE WHEN verdict.outcome = 'win' THEN champion
            WHEN verdict.outcome IN ('tie', 'inconclusive') THEN leader END AS ahead,
        CASE WHEN verdict.outcome = 'tie'
            THEN array_to_string(list_sort(list_append(level_with, leader)), ', ') END AS tied
    FROM judged
)
SELECT
    d.device,
    d.cell_id,
    d.timing_mode,
    d.run_id,
    d.workload,
    d.precision,
    d.routing,
    d.tokens,
    d.outcome,
    d.outcome = 'win' AND NOT coalesce(list_bool_or(list_transform(d.refused_houses, lambda h: h <> a.house)), FALSE)
        AS wins_over_all,
    CASE d.outcome
        WHEN 'win' THEN
            'win over ' || a.rivals
            || CASE WHEN wins_over_all THEN '' ELSE ', refused: ' || d.refused END
        WHEN 'tie' THEN 'tie: ' || d.tied
        WHEN 'sole entrant' THEN 'sole entrant: ' || d.measured || coalesce(', refused: ' || d.refused, '')
        WHEN 'incomplete' THEN 'incomplete: ' || coalesce('missing ' || d.missing, d.reason)
        ELSE 'inconclusive: ' || d.reason
    END AS outcome_text,
    d.winner,
    CASE WHEN d.winner IS NOT NULL THEN a.house END AS house,
    d.ahead AS leader,
    a.nearest.rival AS runner_up,
    a.nearest.speedup AS margin,
    a.nearest.lo AS margin_lo,
    a.nearest.hi AS margin_hi,
    a.nearest.lo_wide AS margin_lo_wide,
    a.nearest.hi_wide AS margin_hi_wide,
    d.outcome = 'win' AND coalesce(a.beats_all_wide, FALSE) AS win_holds_wide,
    d.tied,
    d.required,
    d.measured,
    d.refused,
    d.missing,
    d.reason,
    a.time_us,
    d.rounds_shared AS rounds,
    d.sessions,
    d.noise_floor,
    d.tie_band,
    d.conditions_key,
    d.policy_sha256
FROM decided d
LEFT JOIN required_records a
    ON a.run_id = d.run_id AND a.cell_id = d.cell_id AND a.timing_mode = d.timing_mode AND a.contestant = d.ahead;
