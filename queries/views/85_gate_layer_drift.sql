-- materialise
-- gate_layer_drift: a row is run, config, layer (1 is the first); relative error of the state after it, over positions,
-- and its mean over that of stock bf16 against stock float32 at the same layer (NULL where that is not measured).
CREATE VIEW gate_layer_drift AS
WITH states AS (
    SELECT run_id, config, unnest(layer_drift) AS drift, generate_subscripts(layer_drift, 1) AS layer
    FROM gate_positions
),
layers AS (
    SELECT
        run_id,
        config,
        layer,
        count(*) AS positions,
        avg(drift) AS mean_drift,
        median(drift) AS median_drift,
        max(drift) AS largest_drift
    FROM states
    GROUP BY run_id, config, layer
)
SELECT l.*, l.mean_drift / nullif(y.mean_drift, 0) AS drift_ratio
FROM layers l
LEFT JOIN layers y ON y.run_id = l.run_id AND y.layer = l.layer AND y.config = 'stock_bf16_vs_float32';
