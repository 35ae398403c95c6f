-- materialise
-- round_orders: a row is run, mode; whether the contestants took turns in shuffled order. Where every contestant has
-- the same place in all rounds of all cells, drift falls on one of them and not on another (blocked order).
-- NULL where a single round, or a single contestant, leaves nothing to shuffle.
CREATE VIEW round_orders AS
WITH places AS (
    SELECT run_id, timing_mode, contestant, count(DISTINCT position) AS positions, count(*) AS rounds
    FROM round_medians
    GROUP BY run_id, timing_mode, contestant
)
SELECT
    run_id,
    timing_mode,
    CASE WHEN count(*) > 1 AND max(rounds) > 1 THEN max(positions) > 1 END AS shuffled
FROM places
GROUP BY run_id, timing_mode;
