-- imported_files: a row is an import of a tool's file: what stands on record of it, and how many of its rows are here.
-- Imported rows whose import is not on record have a row too, with on_record false.
CREATE VIEW imported_files AS
WITH here AS (
    SELECT import_id, count(*) AS rows_here
    FROM (
        SELECT import_id FROM points WHERE evidence = 'imported'
        UNION ALL SELECT import_id FROM tuned_configs
        UNION ALL SELECT import_id FROM serving_runs WHERE evidence = 'imported'
        UNION ALL
        SELECT r.import_id
        FROM serving_requests q JOIN serving_runs r USING (serving_id)
        WHERE r.evidence = 'imported'
    )
    GROUP BY import_id
),
on_record AS (
    SELECT *
    FROM imports i
    WHERE i.format <> 'lake'
        AND NOT EXISTS (SELECT 1 FROM points p WHERE p.import_id = i.import_id AND p.evidence = 'published')
)
SELECT
    coalesce(i.import_id, h.import_id, 'unknown') AS import_id,
    i.import_id IS NOT NULL AS on_record,
    i.format,
    i.source,
    i.records_in,
    i.rows_out,
    i.refused,
    coalesce(list_sum(json_extract(i.refusals_json, '$[*].records')::BIGINT[]), 0) AS named,
    coalesce(h.rows_here, 0) AS rows_here
FROM on_record i
FULL JOIN here h ON h.import_id = i.import_id;
