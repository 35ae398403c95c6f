-- roofline: a row is device, cell, mode, contestant with a time in the run that speaks; its time over the
-- reference floor of the cell, the resource that sets the floor, and the rates that it achieved.
CREATE VIEW roofline AS
SELECT
    w.device,
    w.workload,
    w.precision,
    w.routing,
    w.tokens,
    w.timing_mode,
    w.cell_id,
    w.run_id,
    s.contestant,
    s.house,
    s.role,
    s.status,
    s.time_us,
    f.reference_floor_us,
    s.time_us / f.reference_floor_us AS x_floor,
    g.goal_x_floor,
    f.limiting_resource,
    f.memory_floor_us,
    f.matrix_floor_us,
    f.bytes,
    f.flops,
    1e6 * f.bytes / nullif(s.time_us, 0) AS achieved_bytes_per_s,
    1e6 * f.flops / nullif(s.time_us, 0) AS achieved_ops_per_s,
    f.stream_bytes_per_s,
    f.matrix_ops_per_s,
    s.below_reference_floor
FROM winners w
JOIN contestant_status s
    ON s.run_id = w.run_id AND s.cell_id = w.cell_id AND s.timing_mode = w.timing_mode AND s.time_us IS NOT NULL
LEFT JOIN floors f ON f.run_id = w.run_id AND f.cell_id = w.cell_id
LEFT JOIN goals g
    ON g.device = w.device AND g.workload = w.workload AND g.timing_mode = w.timing_mode
    AND g.precision = w.precision AND g.tokens = w.tokens AND w.routing IN ('uniform', 'zipf');
