-- refusals: a row is a refusal of any run: those that a producer recorded, and those that follow from the samples
-- (below-floor, invalid-time: stage 'samples'). 'stands' says whether it is what the contestant's status rests on.
CREATE VIEW refusals AS
SELECT
    v.run_id,
    r.device,
    v.cell_id,
    v.timing_mode,
    v.contestant,
    h.house,
    h.role,
    v.stage,
    v.session,
    coalesce(v.reason_code, 'refused') AS reason_code,
    coalesce(v.fault, 'environment') AS fault,
    v.detail,
    v.recorded_at,
    EXISTS (
        SELECT 1 FROM contestant_status s
        WHERE s.run_id = v.run_id AND s.cell_id = v.cell_id AND s.contestant = v.contestant
            AND v.timing_mode IN (s.timing_mode, 'all') AND s.status = 'refused'
            AND s.reason_code = coalesce(v.reason_code, 'refused')
    ) AS stands
FROM verdicts v
JOIN run_status r ON r.run_id = v.run_id
LEFT JOIN run_roster h
    ON h.run_id = v.run_id AND h.contestant = v.contestant AND h.precision = split_part(v.cell_id, '/', 2)
WHERE v.status <> 'passed'
UNION ALL
SELECT
    run_id,
    device,
    cell_id,
    timing_mode,
    contestant,
    house,
    role,
    'samples' AS stage,
    NULL AS session,
    reason_code,
    fault,
    detail,
    NULL AS recorded_at,
    TRUE AS stands
FROM contestant_status
WHERE derived;
