-- points_entrants: a row is evidence, benchmark, cell_key, device, metric, contestant, version of the figures that were
-- not measured here. Exact duplicates (same value, same conditions_json) count once, repeats enter by their median. One
-- value that is refused, NULL or not positive refuses the entrant; a metric without a direction refuses all of them.
-- cost is the value turned so that less is better; label is the contestant with its version where that is known.
CREATE VIEW points_entrants AS
WITH figures AS (
    SELECT DISTINCT
        evidence,
        coalesce(benchmark, 'unknown') AS benchmark,
        cell_key,
        coalesce(device, 'unknown') AS device,
        metric,
        contestant,
        version,
        house,
        value,
        lower_is_better,
        conditions_json,
        CASE
            WHEN status = 'refused' THEN coalesce(reason, 'refused')
            WHEN value IS NULL THEN coalesce(reason, 'no value')
            WHEN NOT isfinite(value) THEN 'the value is not finite'
            WHEN value <= 0 THEN 'the value is not positive'
            WHEN lower_is_better IS NULL THEN 'direction unknown'
        END AS refusal
    FROM points
)
SELECT
    evidence,
    benchmark,
    cell_key,
    device,
    metric,
    contestant,
    version,
    contestant || coalesce(' ' || version, '') AS label,
    coalesce(min(house), contestant) AS house,
    CASE WHEN count(DISTINCT lower_is_better) = 1 THEN bool_and(lower_is_better) END AS lower_is_better,
    count(*) AS figures,
    CASE WHEN count(refusal) = 0 THEN median(value) END AS value,
    CASE
        WHEN count(refusal) > 0 THEN NULL
        WHEN bool_and(lower_is_better) THEN median(value)
        WHEN bool_and(NOT lower_is_better) THEN 1 / median(value)
    END AS cost,
    CASE
        WHEN count(refusal) > 0 THEN min(refusal)
        WHEN count(DISTINCT lower_is_better) > 1 THEN 'direction differs between figures'
    END AS refusal
FROM figures
GROUP BY evidence, benchmark, cell_key, device, metric, contestant, version;
