-- serving_costs: a row is a run that money is recorded for. A rate is what was stated, weighted by how long it ran;
-- a billing record is what was charged, spread evenly over the period that it pays for. Bills for the same thing
-- (`covers`) follow one another in time; those for different things, a card and a disk, add up.
CREATE VIEW serving_costs AS
WITH bills AS (
    SELECT run_id, 3600 * sum(amount_usd) / sum(period_s) AS usd_per_h
    FROM costs
    WHERE basis = 'billing' AND period_s > 0 AND amount_usd IS NOT NULL
    GROUP BY run_id, covers
)
SELECT
    run_id,
    coalesce(
        3600 * sum(amount_usd) FILTER (WHERE basis = 'rate' AND period_s > 0 AND amount_usd IS NOT NULL)
        / sum(period_s) FILTER (WHERE basis = 'rate' AND period_s > 0 AND amount_usd IS NOT NULL),
        avg(rate_usd_per_h) FILTER (WHERE basis = 'rate')
    ) AS rate_usd_per_h,
    (SELECT sum(b.usd_per_h) FROM bills b WHERE b.run_id = c.run_id) AS billed_usd_per_h
FROM costs c
WHERE run_id IS NOT NULL
GROUP BY run_id;
