-- materialise
-- verdict_summary: a row is run, cell, mode, contestant with a verdict (those of mode 'all' hold for every mode).
-- A refusal by the contestant's own fault sticks; one by the environment stands only while it is the latest.
-- 'passed' means that an output was compared: in preparation or after the timed launches.
CREATE VIEW verdict_summary AS
WITH ordered AS (
    SELECT
        v.*,
        c.timing_mode AS mode,
        {
            'at': v.recorded_at,
            'session': v.session,
            'stage': list_position(['plan', 'start', 'load', 'prepare', 'sample', 'timed-output'], v.stage),
            'code': coalesce(v.reason_code, '')
        } AS sequence
    FROM verdicts v
    JOIN run_cells c
        ON c.run_id = v.run_id AND c.cell_id = v.cell_id AND v.timing_mode IN (c.timing_mode, 'all')
)
SELECT
    run_id,
    cell_id,
    mode AS timing_mode,
    contestant,
    bool_or(status = 'passed' AND stage IN ('prepare', 'timed-output')) AS passed,
    arg_max({'code': coalesce(reason_code, 'refused'), 'detail': detail}, sequence)
        FILTER (WHERE status <> 'passed' AND fault = 'contestant') AS own_refusal,
    arg_max({'status': status, 'code': coalesce(reason_code, 'refused'), 'detail': detail}, sequence) AS latest,
    max(relative_error) FILTER (WHERE status = 'passed') AS relative_error,
    min(tolerance) AS tolerance,
    one_or_two(repeatability) AS repeatability,
    one_or_two(config_source) AS config_source,
    max(launches) AS launches
FROM ordered
GROUP BY run_id, cell_id, mode, contestant;
