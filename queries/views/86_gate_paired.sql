-- materialise
-- gate_paired: a row is run, config; at the same positions, is the candidate right where stock bf16 is, right being
-- the decision of the same weights in float32. Pairs come from the rows of stock_bf16_vs_float32.
-- McNemar's test on the pairs in which one of the two is wrong: as many either way, if the candidate is as good.
-- Exact, from the binomial distribution (McNemar 1947; Fagerland et al. 2013): p_worse is one-sided, the probability
-- of at least so many pairs against the candidate; p_different is two-sided. A large p proves no equality:
-- excess_wrong_hi is the upper end of the 95% Wald interval of the difference of the shares of wrong decisions.
CREATE VIEW gate_paired AS
WITH pairs AS (
    SELECT
        c.run_id,
        c.config,
        c.reference_top1 = y.reference_top1 AS stock_right,
        c.candidate_top1 = y.reference_top1 AS candidate_right
    FROM gate_positions c
    JOIN gate_positions y
        ON y.run_id = c.run_id AND y.position = c.position AND y.tokens_sha256 = c.tokens_sha256
        AND y.config = 'stock_bf16_vs_float32' AND y.candidate_top1 = c.reference_top1
    WHERE NOT starts_with(c.config, 'stock_')
),
counts AS (
    SELECT
        run_id,
        config,
        count(*) AS pairs,
        count(*) FILTER (WHERE stock_right AND candidate_right) AS both_right,
        count(*) FILTER (WHERE stock_right AND NOT candidate_right) AS stock_only_right,
        count(*) FILTER (WHERE NOT stock_right AND candidate_right) AS candidate_only_right,
        count(*) FILTER (WHERE NOT stock_right AND NOT candidate_right) AS both_wrong
    FROM pairs
    GROUP BY run_id, config
),
discordant AS (
    SELECT
        *,
        stock_only_right + candidate_only_right AS discordant,
        (stock_only_right - candidate_only_right) / pairs AS excess_wrong
    FROM counts
)
SELECT
    *,
    -- A sum of many small terms may end a rounding below 0.
    greatest(0.0, (1 + symmetric_coverage(discordant, stock_only_right)) / 2) AS p_worse,
    greatest(0.0, least(1, 1 + symmetric_coverage(discordant, greatest(stock_only_right, candidate_only_right))))
        AS p_different,
    excess_wrong + 1.959964 * sqrt((discordant / pairs - excess_wrong ** 2) / pairs) AS excess_wrong_hi
FROM discordant;
