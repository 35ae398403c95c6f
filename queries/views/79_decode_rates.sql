-- materialise
-- decode_rates: a row is run, config of decode_attempts; tokens a second at concurrency 1 (median over repeats, [lo, hi]
-- the order-statistic interval at the policy's confidence, NULL with too few repeats), the ratio to the stock model's
-- of the same repeat, and the fraction of the memory floor: the time that the weights' bytes take at the read rate
-- measured on that device (newest run that measured it), over the time of a step. Only inside a model; no ratio leaves it.
CREATE VIEW decode_rates AS
WITH best AS (
    SELECT device, run_id, max(bytes_per_s) AS read_bytes_per_s
    FROM ceilings
    WHERE ceiling = 'read' AND bytes_per_s IS NOT NULL
    GROUP BY device, run_id
),
ceiling_rates AS (
    SELECT device, arg_max(read_bytes_per_s, run_id) AS read_bytes_per_s FROM best GROUP BY device
),
pairs AS (
    SELECT r.run_id, r.config, r.tokens_per_s, r.tokens_per_s / s.tokens_per_s AS speedup
    FROM decode_repeats r
    LEFT JOIN decode_repeats s ON s.run_id = r.run_id AND s.repeat = r.repeat AND s.config = 'stock_eager_bf16'
),
lists AS (
    SELECT
        run_id,
        config,
        list_sort(list(tokens_per_s) FILTER (WHERE tokens_per_s IS NOT NULL)) AS rates,
        list_sort(list(speedup) FILTER (WHERE speedup IS NOT NULL)) AS speedups
    FROM pairs
    GROUP BY run_id, config
),
ranked AS (
    SELECT
        l.*,
        order_statistic_rank(len(l.rates), p.confidence) AS rate_rank,
        order_statistic_rank(len(l.speedups), p.confidence) AS speedup_rank,
        p.datasheet_bytes_per_s,
        p.refuse_below_datasheet
    FROM lists l
    LEFT JOIN run_policy p ON p.run_id = l.run_id
)
SELECT
    a.*,
    list_median(r.rates) AS tokens_per_s,
    r.rates[r.rate_rank] AS lo,
    r.rates[len(r.rates) + 1 - r.rate_rank] AS hi,
    list_median(r.speedups) AS speedup_vs_stock,
    r.speedups[r.speedup_rank] AS speedup_lo,
    r.speedups[len(r.speedups) + 1 - r.speedup_rank] AS speedup_hi,
    1e6 * a.weight_bytes / c.read_bytes_per_s AS memory_floor_us,
    a.weight_bytes / c.read_bytes_per_s * list_median(r.rates) AS fraction_of_memory_floor,
    1e6 * a.weight_bytes / r.datasheet_bytes_per_s * r.refuse_below_datasheet AS least_possible_us
FROM decode_attempts a
LEFT JOIN ranked r ON r.run_id = a.run_id AND r.config = a.config AND a.status = 'timed'
LEFT JOIN ceiling_rates c ON c.device = a.device;
