-- Imported and published figures, cell by cell: who is ahead, who takes part alone, what is refused and why.
-- Point figures: nothing here is a verified win.
-- duckdb -readonly warehouse.db < queries/points_cells.sql
.maxrows 1000000
SELECT
    evidence,
    benchmark,
    device,
    metric,
    outcome,
    entrants,
    outcome_text,
    round(speedup_vs_next, 3) AS speedup_vs_next,
    cell_key
FROM points_cells
ORDER BY ALL;
