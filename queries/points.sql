-- Imported and published figures, contestant against rival: in how many cells which is faster, and four named means of
-- speedup_vs_rival = t_rival / t_this over the cells that both have. Point figures: nothing here is a verified win.
-- duckdb -readonly warehouse.db < queries/points.sql
.maxrows 1000000
SELECT
    evidence,
    benchmark,
    device,
    metric,
    contestant,
    version,
    rival,
    rival_version,
    shared_cells,
    alone_cells,
    rival_alone_cells,
    refused_cells,
    faster_cells,
    slower_cells,
    equal_cells,
    within_1_percent_cells,
    round(speedup_geomean, 4) AS speedup_geomean,
    round(speedup_mean, 4) AS speedup_mean,
    round(speedup_median, 4) AS speedup_median,
    round(speedup_of_sums, 4) AS speedup_of_sums
FROM points_summary
ORDER BY ALL;
