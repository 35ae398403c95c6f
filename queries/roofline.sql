-- Times over the reference floor of their cell, with the goals set for the library beside them.
-- duckdb -readonly warehouse.db < queries/roofline.sql
.maxrows 1000000
SELECT
    device,
    workload,
    precision,
    routing,
    tokens,
    timing_mode AS mode,
    contestant,
    round(time_us, 2) AS time_us,
    round(reference_floor_us, 2) AS floor_us,
    round(x_floor, 3) AS x_floor,
    goal_x_floor,
    limiting_resource,
    round(achieved_bytes_per_s / 1e12, 3) AS achieved_tb_per_s,
    round(achieved_ops_per_s / 1e12, 1) AS achieved_tflop_per_s,
    below_reference_floor
FROM roofline
ORDER BY device, workload, precision, routing, tokens, timing_mode, cell_id, time_us, contestant;
