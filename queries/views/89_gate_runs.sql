-- gate_runs: a row is a run of the gate; complete when each required configuration was judged or failed by its own
-- fault. Of the runs of one model in one context on one device the latest complete one speaks, else the latest. (The
-- context is part of the question: it is how many tokens a kernel gets at once, and what the model sees.)
CREATE VIEW gate_runs AS
WITH runs_of_gate AS (
    SELECT
        run_id,
        device,
        policy_sha256,
        last_event,
        coalesce(any_value(model), json_extract_string(any_value(plan_json), '$.model'), 'unknown') AS model,
        coalesce(TRY_CAST(json_extract_string(any_value(plan_json), '$.context') AS BIGINT), max(context_tokens))
            AS context_tokens,
        one_or_two(model_sha256) AS model_sha256,
        one_or_two(tokens_sha256) AS tokens_sha256,
        one_or_two(source_sha256) AS source_sha256,
        count(*) FILTER (WHERE required) AS required,
        coalesce(bool_and(status IN ('measured', 'void') OR (status = 'refused' AND fault = 'contestant'))
            FILTER (WHERE required), FALSE) AS complete,
        count(*) FILTER (WHERE verdict NOT IN ('passed', 'yardstick')) AS not_passed,
        string_agg(config || ' ' || verdict, ', ' ORDER BY config_order)
            FILTER (WHERE verdict NOT IN ('passed', 'yardstick')) AS not_passed_configs,
        min(positions) FILTER (WHERE status = 'measured') AS positions
    FROM gate_results
    JOIN (SELECT run_id, plan_json, source_sha256 FROM run_status) USING (run_id)
    GROUP BY run_id, device, policy_sha256, last_event
)
SELECT
    *,
    count(*) OVER (PARTITION BY device, model, context_tokens) AS runs,
    row_number() OVER (PARTITION BY device, model, context_tokens ORDER BY complete DESC, run_id DESC) = 1 AS speaks
FROM runs_of_gate;
