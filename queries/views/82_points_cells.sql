-- points_cells: a row is evidence, benchmark, cell_key, device, metric; all entrants of the cell together. Siblings of
-- one house do not compete, nor do versions of one contestant. 'faster' is set only where the best figure leads every
-- other house by more than 1 %. Contestants are named with their version where it is known.
CREATE VIEW points_cells AS
WITH best AS (
    SELECT
        evidence,
        benchmark,
        cell_key,
        device,
        metric,
        count(*) AS entrants,
        arg_min({'label': label, 'house': house, 'cost': cost}, {'cost': cost, 'name': label})
            FILTER (WHERE cost IS NOT NULL) AS first,
        string_agg(label || ' (' || refusal || ')', ', ' ORDER BY label)
            FILTER (WHERE cost IS NULL) AS refused
    FROM points_entrants
    GROUP BY evidence, benchmark, cell_key, device, metric
),
others AS (
    SELECT
        b.evidence,
        b.benchmark,
        b.cell_key,
        b.device,
        b.metric,
        min(e.cost / b.first.cost) AS speedup_vs_next,
        string_agg(e.label, ', ' ORDER BY e.label) AS rivals,
        list(e.label) FILTER (WHERE e.cost / b.first.cost <= 1.01::DOUBLE + 1e-12) AS level_with
    FROM best b
    JOIN points_entrants e
        ON e.evidence = b.evidence AND e.benchmark = b.benchmark AND e.cell_key IS NOT DISTINCT FROM b.cell_key
        AND e.device = b.device AND e.metric = b.metric AND e.house <> b.first.house AND e.cost IS NOT NULL
    GROUP BY b.evidence, b.benchmark, b.cell_key, b.device, b.metric
),
judged AS (
    SELECT
        b.evidence,
        b.benchmark,
        b.cell_key,
        b.device,
        b.metric,
        b.entrants,
        b.first.label AS first,
        b.refused,
        o.rivals,
        o.speedup_vs_next,
        CASE
            WHEN b.first IS NULL THEN 'unverified'
            WHEN o.rivals IS NULL THEN 'sole entrant'
            WHEN len(o.level_with) > 0 THEN 'tie'
            WHEN b.metric LIKE 'memory%' THEN 'smaller (point figures)'
            ELSE 'faster (point figures)'
        END AS outcome,
        array_to_string(list_sort(list_append(o.level_with, b.first.label)), ', ') AS level
    FROM best b
    LEFT JOIN others o
        ON o.evidence = b.evidence AND o.benchmark = b.benchmark AND o.cell_key IS NOT DISTINCT FROM b.cell_key
        AND o.device = b.device AND o.metric = b.metric
)
SELECT
    evidence,
    benchmark,
    cell_key,
    device,
    metric,
    outcome,
    CASE outcome
        WHEN 'faster (point figures)' THEN first || ' faster over ' || rivals || ' (point figures)'
        WHEN 'smaller (point figures)' THEN first || ' smaller than ' || rivals || ' (point figures)'
        WHEN 'tie' THEN 'tie: ' || level
        WHEN 'sole entrant' THEN 'sole entrant: ' || first
        ELSE 'unverified'
    END || coalesce(', refused: ' || refused, '') AS outcome_text,
    CASE WHEN outcome IN ('faster (point figures)', 'smaller (point figures)') THEN first END AS faster,
    CASE WHEN outcome = 'tie' THEN level END AS tied,
    speedup_vs_next,
    entrants,
    refused
FROM judged;
