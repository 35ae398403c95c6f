-- materialise
-- required_field: a row is run, cell, mode, required contestant. 'usable' may enter the judgement; 'own_fault' was
-- refused by its own doing and is named beside the outcome; anyone else is missing and makes the cell incomplete.
-- Fewer rounds than the policy asks, the same number for all: too little evidence, but nobody is missing.
CREATE VIEW required_field AS
WITH counted AS (
    SELECT
        *,
        max(rounds) FILTER (WHERE status IN ('measured', 'partial'))
            OVER (PARTITION BY run_id, cell_id, timing_mode) AS most_rounds
    FROM contestant_status
    WHERE role = 'required'
)
SELECT
    c.run_id,
    c.cell_id,
    c.timing_mode,
    c.contestant,
    c.house,
    status = 'measured' OR (status = 'partial' AND rounds = most_rounds) AS usable,
    status = 'refused' AND fault = 'contestant' AS own_fault,
    reason_code,
    detail,
    rounds,
    sessions,
    time_us,
    l2_state,
    concat_ws(':', c.contestant, v.version) AS version
FROM counted c
LEFT JOIN run_versions v ON v.run_id = c.run_id AND v.contestant = c.contestant;
