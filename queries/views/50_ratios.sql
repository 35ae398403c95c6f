-- materialise
-- ratios: a row is run, cell, mode, contestant, rival (every ordered pair of the roster).
-- speedup_vs_rival = t_rival / t_this: per round the ratio of the two medians, over rounds their median.
-- [lo, hi] is the order-statistic interval at the policy's confidence, [lo_wide, hi_wide] at confidence_many.
-- NULL with a reason: one of the two is not measured, their conditions differ, or too few rounds for an interval.
CREATE VIEW ratios AS
WITH units AS MATERIALIZED (
    -- Numbers in place of the four text keys: the join below is the largest of the warehouse.
    SELECT
        run_id,
        cell_id,
        timing_mode,
        contestant,
        row_number() OVER (ORDER BY run_id, cell_id, timing_mode, contestant) AS unit,
        dense_rank() OVER (ORDER BY run_id, cell_id, timing_mode) AS cell
    FROM contestant_conditions
),
medians AS (
    SELECT u.unit, u.cell, m.round, m.median_us
    FROM round_medians m
    JOIN units u USING (run_id, cell_id, timing_mode, contestant)
    WHERE m.median_us IS NOT NULL
),
pair_rounds AS (
    SELECT a.unit, b.unit AS rival_unit, list_sort(list(b.median_us / a.median_us)) AS speedups
    FROM medians a
    JOIN medians b ON b.cell = a.cell AND b.round = a.round AND b.unit <> a.unit
    GROUP BY a.unit, b.unit
),
ranks AS (
    SELECT n.rounds, c.confidence, order_statistic_rank(n.rounds, c.confidence) AS rank
    FROM (SELECT DISTINCT len(speedups) AS rounds FROM pair_rounds) n
    CROSS JOIN (
        SELECT confidence FROM run_policy UNION SELECT confidence_many FROM run_policy
    ) c
),
pairs AS (
    SELECT
        a.run_id,
        a.device,
        a.cell_id,
        a.timing_mode,
        a.contestant,
        a.house,
        a.role,
        b.contestant AS rival,
        b.house AS rival_house,
        b.role AS rival_role,
        least(a.sessions, b.sessions) AS sessions,
        p.confidence,
        p.confidence_many,
        nullif(concat_ws(
            '; ',
            CASE WHEN a.status NOT IN ('measured', 'partial')
                THEN printf('%s is %s (%s)', a.contestant, a.status, a.reason_code) END,
            CASE WHEN b.status NOT IN ('measured', 'partial')
                THEN printf('%s is %s (%s)', b.contestant, b.status, b.reason_code) END
        ), '') AS absent,
        nullif(concat_ws(
            '; ',
            CASE WHEN a.worker_device <> b.worker_device OR contains(a.worker_device, ' | ')
                THEN printf('device: %s against %s', a.worker_device, b.worker_device) END,
            CASE WHEN a.device_uuid <> b.device_uuid OR contains(a.device_uuid, ' | ')
                THEN printf('device_uuid: %s against %s', a.device_uuid, b.device_uuid) END,
            CASE WHEN a.l2_state <> b.l2_state OR contains(a.l2_state, ' | ') OR a.l2_state = 'mixed'
                THEN printf('l2_state: %s against %s', a.l2_state, b.l2_state) END,
            CASE WHEN a.torch_version <> b.torch_version OR contains(a.torch_version, ' | ')
                THEN printf('torch_version: %s against %s', a.torch_version, b.torch_version) END,
            CASE WHEN a.triton_version <> b.triton_version OR contains(a.triton_version, ' | ')
                THEN printf('triton_version: %s against %s', a.triton_version, b.triton_version) END
        ), '') AS difference
    FROM contestant_status a
    JOIN contestant_status b
        ON b.run_id = a.run_id AND b.cell_id = a.cell_id AND b.timing_mode = a.timing_mode
        AND b.contestant <> a.contestant
    JOIN run_policy p ON p.run_id = a.run_id
),
joined AS (
    SELECT
        p.*,
        CASE WHEN p.absent IS NULL AND p.difference IS NULL THEN r.speedups END AS speedups,
        coalesce(len(r.speedups), 0) AS rounds,
        narrow.rank AS rank,
        wide.rank AS rank_wide
    FROM pairs p
    LEFT JOIN units a
        ON a.run_id = p.run_id AND a.cell_id = p.cell_id AND a.timing_mode = p.timing_mode
        AND a.contestant = p.contestant
    LEFT JOIN units b
        ON b.run_id = p.run_id AND b.cell_id = p.cell_id AND b.timing_mode = p.timing_mode
        AND b.contestant = p.rival
    LEFT JOIN pair_rounds r ON r.unit = a.unit AND r.rival_unit = b.unit
    LEFT JOIN ranks narrow ON narrow.rounds = len(r.speedups) AND narrow.confidence = p.confidence
    LEFT JOIN ranks wide ON wide.rounds = len(r.speedups) AND wide.confidence = p.confidence_many
)
SELECT
    run_id,
    device,
    cell_id,
    timing_mode,
    contestant,
    house,
    role,
    rival,
    rival_house,
    rival_role,
    list_median(speedups) AS speedup_vs_rival,
    speedups[rank] AS lo,
    speedups[rounds + 1 - rank] AS hi,
    speedups[rank_wide] AS lo_wide,
    speedups[rounds + 1 - rank_wide] AS hi_wide,
    rounds,
    sessions,
    difference IS NOT NULL AND absent IS NULL AS conditions_differ,
    CASE
        WHEN absent IS NOT NULL THEN absent
        WHEN difference IS NOT NULL THEN 'conditions differ: ' || difference
        WHEN rounds = 0 THEN 'no round in which both were measured'
        WHEN confidence IS NULL THEN 'the policy of the run is not in the lake'
        WHEN rank IS NULL THEN printf('%d rounds are too few for an interval of confidence %g', rounds, confidence)
        WHEN rank_wide IS NULL
            THEN printf('%d rounds are too few for an interval of confidence %g', rounds, confidence_many)
    END AS reason
FROM joined;
