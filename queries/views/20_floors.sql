-- materialise
-- floors: a row is run, cell; the least time that the cell can take, from the ids that were drawn.
-- reference_floor_us = max((weight_bytes + io_bytes) / stream rate, flops / matrix rate): the rates measured
-- on that device, in the same run or else in the newest run that measured them. The matrix rate is the bf16
-- product's; int8_w8a8 may take twice that (cuBLAS's own int8 rate is no bound). datasheet_floor_us uses the
-- peaks in the run's policy. Times in microseconds, rates in 1/s; NULL where a rate or the drawn facts lack.
CREATE VIEW floors AS
WITH best AS (
    SELECT
        device,
        run_id,
        max(bytes_per_s) FILTER (WHERE ceiling = 'read') AS stream_bytes_per_s,
        max(ops_per_s) FILTER (WHERE ceiling = 'bf16_matmul') AS bf16_ops_per_s
    FROM ceilings
    GROUP BY device, run_id
),
newest AS (
    SELECT
        device,
        arg_max(stream_bytes_per_s, run_id) FILTER (WHERE stream_bytes_per_s IS NOT NULL) AS stream_bytes_per_s,
        arg_max(bf16_ops_per_s, run_id) FILTER (WHERE bf16_ops_per_s IS NOT NULL) AS bf16_ops_per_s
    FROM best
    GROUP BY device
),
rates AS (
    SELECT
        c.run_id,
        c.cell_id,
        c.precision,
        c.weight_bytes + c.io_bytes AS bytes,
        c.flops,
        r.device,
        coalesce(b.stream_bytes_per_s, n.stream_bytes_per_s) AS stream_bytes_per_s,
        coalesce(b.bf16_ops_per_s, n.bf16_ops_per_s)
            * CASE WHEN c.precision = 'int8_w8a8' THEN 2 ELSE 1 END AS matrix_ops_per_s,
        p.datasheet_bytes_per_s,
        CASE WHEN c.precision = 'int8_w8a8' THEN p.datasheet_int8_ops_per_s ELSE p.datasheet_bf16_ops_per_s END
            AS datasheet_ops_per_s
    FROM cells c
    JOIN run_status r ON r.run_id = c.run_id
    JOIN run_policy p ON p.run_id = c.run_id
    LEFT JOIN best b ON b.device = r.device AND b.run_id = c.run_id
    LEFT JOIN newest n ON n.device = r.device
),
times AS (
    SELECT
        *,
        1e6 * bytes / nullif(stream_bytes_per_s, 0) AS memory_floor_us,
        1e6 * flops / nullif(matrix_ops_per_s, 0) AS matrix_floor_us,
        1e6 * bytes / nullif(datasheet_bytes_per_s, 0) AS datasheet_memory_us,
        1e6 * flops / nullif(datasheet_ops_per_s, 0) AS datasheet_matrix_us
    FROM rates
)
SELECT
    run_id,
    cell_id,
    device,
    precision,
    bytes,
    flops,
    stream_bytes_per_s,
    matrix_ops_per_s,
    memory_floor_us,
    matrix_floor_us,
    CASE WHEN memory_floor_us IS NOT NULL AND matrix_floor_us IS NOT NULL
        THEN greatest(memory_floor_us, matrix_floor_us) END AS reference_floor_us,
    CASE WHEN memory_floor_us >= matrix_floor_us THEN 'memory' WHEN matrix_floor_us > memory_floor_us THEN 'matrix' END
        AS limiting_resource,
    CASE WHEN datasheet_memory_us IS NOT NULL AND datasheet_matrix_us IS NOT NULL
        THEN greatest(datasheet_memory_us, datasheet_matrix_us) END AS datasheet_floor_us
FROM times;
