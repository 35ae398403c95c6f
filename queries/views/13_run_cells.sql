-- materialise
-- run_cells: a row is run, cell, mode that the run was about, whether or not anything was measured in it.
-- Cells and modes come from every table that mentions one, so that a missing row elsewhere drops nothing.
CREATE VIEW run_cells AS
WITH mentioned_cells AS (
    SELECT run_id, cell_id FROM cells
    UNION SELECT run_id, cell_id FROM verdicts
    UNION SELECT run_id, cell_id FROM round_medians
),
mentioned_modes AS (
    SELECT run_id, timing_mode FROM round_medians
    UNION SELECT run_id, timing_mode FROM verdicts WHERE timing_mode <> 'all'
    UNION SELECT run_id, timing_mode FROM device_states
    UNION SELECT run_id, unnest(json_extract_string(plan_json, '$.mode[*]')) FROM run_status WHERE json_valid(plan_json)
),
modes AS (
    SELECT r.run_id, coalesce(m.timing_mode, 'unknown') AS timing_mode
    FROM run_status r
    LEFT JOIN mentioned_modes m ON m.run_id = r.run_id
)
SELECT
    m.run_id,
    m.cell_id,
    modes.timing_mode,
    coalesce(c.workload, split_part(m.cell_id, '/', 1)) AS workload,
    coalesce(c.precision, split_part(m.cell_id, '/', 2)) AS precision,
    coalesce(c.routing, split_part(m.cell_id, '/', 3)) AS routing,
    coalesce(c.tokens, TRY_CAST(split_part(m.cell_id, '/', 4) AS BIGINT)) AS tokens,
    c.weight_bytes,
    c.io_bytes,
    c.flops
FROM mentioned_cells m
JOIN modes ON modes.run_id = m.run_id
LEFT JOIN cells c ON c.run_id = m.run_id AND c.cell_id = m.cell_id;
