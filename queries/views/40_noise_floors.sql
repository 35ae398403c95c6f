-- materialise
-- noise_floors: a row is run, mode; the policy's quantile (linear interpolation) of abs(A/A - 1) over all cells
-- and rounds in which a control and the contestant that it repeats have a median, refused or not: the floor is the
-- machine's. tie_band = max(policy, floor).
CREATE VIEW noise_floors AS
WITH pairs AS (
    SELECT mc.run_id, mc.timing_mode, abs(mc.median_us / ma.median_us - 1) AS deviation
    FROM contestant_status c
    JOIN round_medians mc
        ON mc.run_id = c.run_id AND mc.cell_id = c.cell_id AND mc.timing_mode = c.timing_mode
        AND mc.contestant = c.contestant
    JOIN round_medians ma
        ON ma.run_id = mc.run_id AND ma.cell_id = mc.cell_id AND ma.timing_mode = mc.timing_mode
        AND ma.round = mc.round AND ma.contestant = c.control_of
    WHERE c.role = 'control' AND mc.median_us IS NOT NULL AND ma.median_us IS NOT NULL
),
sorted AS (
    SELECT run_id, timing_mode, list_sort(list(deviation)) AS deviations FROM pairs GROUP BY run_id, timing_mode
),
placed AS (
    SELECT s.*, p.tie_band, (len(s.deviations) - 1) * p.noise_quantile AS place
    FROM sorted s
    JOIN run_policy p ON p.run_id = s.run_id
),
floor_values AS (
    SELECT
        *,
        deviations[floor(place)::INTEGER + 1] * (1 - (place - floor(place)))
            + deviations[ceil(place)::INTEGER + 1] * (place - floor(place)) AS noise_floor
    FROM placed
)
SELECT
    run_id,
    timing_mode,
    len(deviations) AS pairs,
    noise_floor,
    tie_band AS policy_tie_band,
    greatest(tie_band, noise_floor) AS tie_band
FROM floor_values;
