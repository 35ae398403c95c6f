-- materialise
-- round_medians: a row is run, cell, mode, round, contestant; the median of the valid samples of that round.
-- A time that is not positive is invalid: it is counted, and enters no median.
-- A row of sample_rounds is such a round already, unless its samples differ in session, position or L2 state.
CREATE VIEW round_medians AS
WITH divided AS (
    SELECT hash(run_id, cell_id, timing_mode, round, contestant)
    FROM sample_rounds
    GROUP BY ALL
    HAVING count(*) > 1
),
marked AS (
    SELECT *, hash(run_id, cell_id, timing_mode, round, contestant) IN (FROM divided) AS divided FROM sample_rounds
),
rounds AS (
    SELECT run_id, cell_id, timing_mode, round, contestant, session, position, l2_state, timings
    FROM marked
    WHERE NOT divided
    UNION ALL
    SELECT
        run_id,
        cell_id,
        timing_mode,
        round,
        contestant,
        min(session),
        min(position),
        CASE WHEN min(l2_state) = max(l2_state) THEN min(l2_state) ELSE 'mixed' END,
        flatten(list(timings))
    FROM marked
    WHERE divided
    GROUP BY run_id, cell_id, timing_mode, round, contestant
),
times AS (
    SELECT *, list_transform(timings, lambda timing: timing.time_us) AS times FROM rounds
),
judged AS (
    -- A list is copied only where a time is to be left out.
    SELECT *, CASE WHEN list_min(times) > 0 THEN times ELSE list_filter(times, lambda t: t > 0) END AS valid_times
    FROM times
)
SELECT
    run_id,
    cell_id,
    timing_mode,
    round,
    contestant,
    session,
    position,
    list_median(valid_times) AS median_us,
    len(times) AS samples,
    len(times) - len(valid_times) AS invalid_samples,
    l2_state
FROM judged;
