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
    run_id,
    cell_id,
    timing_mode,
    contestant,
    house,
    status = 'measured' OR (status = 'partial' AND rounds = most_rounds) AS usable,
    status = 'refused' AND fault = 'contestant' AS own_fault,
    reason_code,
    detail,
    rounds,
    sessions,
    time_us,
    concat_ws(':', contestant, torch_version, triton_version, package_version, source_sha256, l2_state) AS version
FROM counted;
