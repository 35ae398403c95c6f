-- points_pairs: a row is evidence, benchmark, cell_key, device, metric, contestant, version, rival, rival_version: each
-- ordered pair, and a lone entrant with a NULL rival. speedup_vs_rival > 1: this one is better. A comparison of point
-- figures: no interval, no verdict, so the outcome is never a win; within 1 % it is a tie. Two versions of one
-- contestant are compared with each rival apart, and not with each other. Of memory, the better one is smaller.
CREATE VIEW points_pairs AS
WITH pairs AS (
    SELECT
        a.evidence,
        a.benchmark,
        a.cell_key,
        a.device,
        a.metric,
        a.contestant,
        a.version,
        b.contestant AS rival,
        b.version AS rival_version,
        a.value,
        b.value AS rival_value,
        b.cost / a.cost AS speedup_vs_rival,
        nullif(concat_ws('; ', a.label || ': ' || a.refusal, b.label || ': ' || b.refusal), '') AS refusal
    FROM points_entrants a
    LEFT JOIN points_entrants b
        ON b.evidence = a.evidence AND b.benchmark = a.benchmark AND b.cell_key IS NOT DISTINCT FROM a.cell_key
        AND b.device = a.device AND b.metric = a.metric AND b.contestant <> a.contestant
)
SELECT
    evidence,
    benchmark,
    cell_key,
    device,
    metric,
    contestant,
    version,
    rival,
    rival_version,
    value,
    rival_value,
    speedup_vs_rival,
    CASE
        WHEN refusal IS NOT NULL OR (rival IS NOT NULL AND speedup_vs_rival IS NULL) THEN 'unverified'
        WHEN rival IS NULL THEN 'sole entrant'
        WHEN greatest(speedup_vs_rival, 1 / speedup_vs_rival) <= 1.01::DOUBLE + 1e-12 THEN 'tie'
        WHEN metric LIKE 'memory%' THEN 'smaller (point figures)'
        ELSE 'faster (point figures)'
    END AS outcome,
    CASE
        WHEN greatest(speedup_vs_rival, 1 / speedup_vs_rival) > 1.01::DOUBLE + 1e-12
            THEN CASE WHEN speedup_vs_rival > 1 THEN contestant ELSE rival END
    END AS faster,
    refusal AS reason
FROM pairs;
