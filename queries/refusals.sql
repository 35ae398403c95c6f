-- Every refusal of every run: whose fault, why, and whether the contestant's status rests on it.
-- duckdb -readonly warehouse.db < queries/refusals.sql
.maxrows 1000000
SELECT
    run_id,
    device,
    cell_id,
    timing_mode AS mode,
    contestant,
    role,
    stage,
    session,
    fault,
    reason_code,
    stands,
    detail
FROM refusals
ORDER BY run_id, device, cell_id, timing_mode, contestant, session NULLS LAST, stage, reason_code, detail;
