-- completeness: a row is device, cell, mode; who was required, measured, refused and missing in the run that speaks.
CREATE VIEW completeness AS
SELECT
    device,
    workload,
    precision,
    routing,
    tokens,
    timing_mode,
    cell_id,
    run_id,
    outcome <> 'incomplete' AS complete,
    required,
    measured,
    refused,
    missing,
    CASE WHEN outcome = 'incomplete' THEN reason END AS reason,
    rounds,
    sessions,
    runs,
    complete_runs
FROM winners;
