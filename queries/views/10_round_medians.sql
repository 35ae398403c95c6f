-- materialise
-- round_medians: a row is run, cell, mode, round, contestant; the median of the valid samples of that round.
-- A time that is not positive is invalid: it is counted, and enters no median.
CREATE VIEW round_medians AS
SELECT
    run_id,
    cell_id,
    timing_mode,
    round,
    contestant,
    min(session) AS session,
    min(position) AS position,
    median(time_us) FILTER (WHERE time_us > 0) AS median_us,
    count(*) AS samples,
    count(*) FILTER (WHERE time_us <= 0) AS invalid_samples,
    CASE WHEN min(l2_state) = max(l2_state) THEN min(l2_state) ELSE 'mixed' END AS l2_state
FROM samples
GROUP BY run_id, cell_id, timing_mode, round, contestant;
