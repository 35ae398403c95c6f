-- decode_runs: a row is a run that decoded; complete when each required configuration was timed as long as its policy
-- asks, or was refused by its own fault. Of the runs of one model on one device the latest complete one speaks, else
-- the latest.
CREATE VIEW decode_runs AS
WITH runs_of_decode AS (
    SELECT
        run_id,
        device,
        any_value(model) AS model,
        any_value(last_event) AS last_event,
        one_or_two(model_sha256) AS model_sha256,
        one_or_two(prompt_sha256) AS prompt_sha256,
        count(*) FILTER (WHERE required) AS required,
        count(*) FILTER (WHERE status = 'timed') AS timed,
        count(*) FILTER (WHERE status = 'refused') AS refused,
        coalesce(bool_and(
            (status = 'timed' AND repeats >= min_repeats AND steps >= min_steps)
            OR (status = 'refused' AND fault = 'contestant')
        ) FILTER (WHERE required), FALSE) AS complete
    FROM decode_attempts
    GROUP BY run_id, device
)
SELECT
    *,
    count(*) OVER (PARTITION BY device, model) AS runs,
    row_number() OVER (PARTITION BY device, model ORDER BY complete DESC, run_id DESC) = 1 AS speaks
FROM runs_of_decode;
