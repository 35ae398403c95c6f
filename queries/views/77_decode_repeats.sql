-- materialise
-- decode_repeats: a row is run, config, repeat; tokens a second over all of its timed steps (their number over the sum
-- of their times), and what it decoded.
CREATE VIEW decode_repeats AS
SELECT
    run_id,
    config,
    repeat,
    one_or_two(model) AS model,
    any_value(precision) AS precision,
    bool_or(graph) AS graph,
    count(*) AS steps,
    CASE WHEN min(time_us) > 0 THEN 1e6 * count(*) / sum(time_us) END AS tokens_per_s,
    min(time_us) AS least_step_us,
    max(weight_bytes) AS weight_bytes,
    one_or_two(prompt_sha256) AS prompt_sha256,
    one_or_two(output_sha256) AS output_sha256
FROM decode_steps
GROUP BY run_id, config, repeat;
