-- tuned_ranges: a row is an entry of a tuned fused-MoE table, and the numbers of tokens that a loader resolves to it.
-- vLLM and SGLang take the key nearest to M, and of two equally near the one that stands first in the file; tie_at is
-- the M at which that decides between this entry and the one below it. tokens_to is NULL for the largest key.
CREATE VIEW tuned_ranges AS
WITH neighbours AS (
    SELECT
        import_id,
        row,
        tokens,
        lag(tokens) OVER below AS tokens_below,
        lag(row) OVER below AS row_below
    FROM tuned_configs
    WINDOW below AS (PARTITION BY import_id ORDER BY tokens)
),
starts AS (
    SELECT
        import_id,
        row,
        tokens,
        CASE WHEN (tokens + tokens_below) % 2 = 0 THEN (tokens + tokens_below) // 2 END AS tie_at,
        CASE
            WHEN tokens_below IS NULL THEN 1
            WHEN (tokens + tokens_below) % 2 = 0 AND row > row_below THEN (tokens + tokens_below) // 2 + 1
            ELSE (tokens + tokens_below + 1) // 2
        END AS tokens_from
    FROM neighbours
)
SELECT
    c.* EXCLUDE (schema_version, metadata_json),
    s.tokens_from,
    lead(s.tokens_from) OVER (PARTITION BY s.import_id ORDER BY s.tokens) - 1 AS tokens_to,
    s.tie_at
FROM starts s
JOIN tuned_configs c ON c.import_id = s.import_id AND c.row = s.row;
