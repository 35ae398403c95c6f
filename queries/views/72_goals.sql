-- goals: a row is a goal that was set for the library before it was tuned: time over the reference floor, for
-- NVIDIA H200, deepseek-moe-16b, CUDA-graph replay with the L2 flushed; the same for uniform and zipf routing.
CREATE VIEW goals AS
SELECT
    'NVIDIA H200' AS device,
    'deepseek-moe-16b' AS workload,
    'graph' AS timing_mode,
    precision,
    tokens::BIGINT AS tokens,
    goal_x_floor::DOUBLE AS goal_x_floor
FROM (
    VALUES
        ('bf16', 1, 1.30), ('int8_w8a16', 1, 1.60), ('int8_w8a8', 1, 1.60),
        ('bf16', 4, 1.12), ('int8_w8a16', 4, 1.30), ('int8_w8a8', 4, 1.30),
        ('bf16', 16, 1.05), ('int8_w8a16', 16, 1.12), ('int8_w8a8', 16, 1.12),
        ('bf16', 64, 1.05), ('int8_w8a16', 64, 1.12), ('int8_w8a8', 64, 1.10),
        ('bf16', 128, 1.05), ('int8_w8a16', 128, 1.15), ('int8_w8a8', 128, 1.12),
        ('bf16', 512, 1.08), ('int8_w8a16', 512, 1.35), ('int8_w8a8', 512, 1.15),
        ('bf16', 2048, 1.30), ('int8_w8a16', 2048, 1.40), ('int8_w8a8', 2048, 1.70)
) AS goal (precision, tokens, goal_x_floor);
