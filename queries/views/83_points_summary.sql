-- points_summary: a row is evidence, benchmark, device, metric, contestant, version, rival, rival_version: each ordered
-- pair that has a cell in common. shared_cells are those in which both have a figure. Each mean is over them alone, and
-- named: of the speedups (t_rival / t_this) of the cells the geometric mean, the mean and the median; and the ratio
-- of the sums, NULL where more is better, since sums of rates mean nothing. faster, slower and equal compare
-- bare figures; within_1_percent_cells are those in which the quicker one needs at least 99 % of the other's time. The
-- cells that one of the two has alone, and those with a refused figure, stand beside.
CREATE VIEW points_summary AS
WITH entered AS (
    SELECT
        evidence,
        benchmark,
        device,
        metric,
        contestant,
        version,
        count(*) AS cells,
        bool_and(lower_is_better) AS is_time
    FROM points_entrants
    GROUP BY evidence, benchmark, device, metric, contestant, version
),
compared AS (
    SELECT
        evidence,
        benchmark,
        device,
        metric,
        contestant,
        version,
        rival,
        rival_version,
        count(*) AS met,
        count(speedup_vs_rival) AS shared,
        count(*) FILTER (WHERE speedup_vs_rival > 1) AS faster,
        count(*) FILTER (WHERE speedup_vs_rival < 1) AS slower,
        count(*) FILTER (WHERE speedup_vs_rival = 1) AS equal,
        count(*) FILTER (WHERE least(speedup_vs_rival, 1 / speedup_vs_rival) >= 0.99::DOUBLE - 1e-12) AS within,
        exp(avg(ln(speedup_vs_rival))) AS geomean,
        avg(speedup_vs_rival) AS mean,
        median(speedup_vs_rival) AS median,
        sum(rival_value) FILTER (WHERE speedup_vs_rival IS NOT NULL)
            / sum(value) FILTER (WHERE speedup_vs_rival IS NOT NULL) AS of_sums
    FROM points_pairs
    WHERE rival IS NOT NULL
    GROUP BY evidence, benchmark, device, metric, contestant, version, rival, rival_version
)
SELECT
    c.evidence,
    c.benchmark,
    c.device,
    c.metric,
    c.contestant,
    c.version,
    c.rival,
    c.rival_version,
    c.shared AS shared_cells,
    t.cells - c.met AS alone_cells,
    r.cells - c.met AS rival_alone_cells,
    c.met - c.shared AS refused_cells,
    c.faster AS faster_cells,
    c.slower AS slower_cells,
    c.equal AS equal_cells,
    c.within AS within_1_percent_cells,
    c.geomean AS speedup_geomean,
    c.mean AS speedup_mean,
    c.median AS speedup_median,
    CASE WHEN t.is_time AND r.is_time THEN c.of_sums END AS speedup_of_sums
FROM compared c
JOIN entered t
    ON t.evidence = c.evidence AND t.benchmark = c.benchmark AND t.device = c.device AND t.metric = c.metric
    AND t.contestant = c.contestant AND t.version IS NOT DISTINCT FROM c.version
JOIN entered r
    ON r.evidence = c.evidence AND r.benchmark = c.benchmark AND r.device = c.device AND r.metric = c.metric
    AND r.contestant = c.rival AND r.version IS NOT DISTINCT FROM c.rival_version;
