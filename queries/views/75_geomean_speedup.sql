-- geomean_speedup: a row is device, workload, precision, mode, contestant, rival; the geometric mean over the set of
-- all cells of speedup_vs_rival in the runs that speak. NULL unless every cell of the set is complete and has the
-- ratio. The rival '(best other house)' is, cell by cell, the fastest measured required rival of another house.
CREATE VIEW geomean_speedup AS
WITH sets AS (
    SELECT
        device,
        workload,
        precision,
        timing_mode,
        count(*) AS cells,
        count(*) FILTER (WHERE outcome <> 'incomplete') AS complete_cells
    FROM winners
    GROUP BY device, workload, precision, timing_mode
),
pairs AS (
    SELECT w.device, w.workload, w.precision, w.timing_mode, w.cell_id, r.contestant, r.rival, r.speedup_vs_rival
    FROM winners w
    JOIN ratios r ON r.run_id = w.run_id AND r.cell_id = w.cell_id AND r.timing_mode = w.timing_mode
    UNION ALL
    SELECT
        w.device,
        w.workload,
        w.precision,
        w.timing_mode,
        w.cell_id,
        r.contestant,
        '(best other house)',
        min(r.speedup_vs_rival)
    FROM winners w
    JOIN ratios r ON r.run_id = w.run_id AND r.cell_id = w.cell_id AND r.timing_mode = w.timing_mode
    WHERE r.house <> r.rival_house AND r.rival_role = 'required'
    GROUP BY w.device, w.workload, w.precision, w.timing_mode, w.cell_id, r.contestant
)
SELECT
    s.device,
    s.workload,
    s.precision,
    s.timing_mode,
    p.contestant,
    p.rival,
    s.cells,
    s.complete_cells,
    count(p.speedup_vs_rival) AS cells_with_ratio,
    CASE WHEN s.complete_cells = s.cells AND count(p.speedup_vs_rival) = s.cells
        THEN exp(avg(ln(p.speedup_vs_rival))) END AS geomean_speedup,
    CASE
        WHEN s.complete_cells < s.cells
            THEN printf('%d of %d cells are incomplete', s.cells - s.complete_cells, s.cells)
        WHEN count(p.speedup_vs_rival) < s.cells
            THEN printf('%d of %d cells have no ratio', s.cells - count(p.speedup_vs_rival), s.cells)
    END AS reason
FROM sets s
JOIN pairs p
    ON p.device = s.device AND p.workload = s.workload AND p.precision = s.precision
    AND p.timing_mode = s.timing_mode
GROUP BY s.device, s.workload, s.precision, s.timing_mode, p.contestant, p.rival, s.cells, s.complete_cells;
