-- materialise
-- run_status: a row is a run that any table of the lake mentions; where and under what it ran, its last event.
CREATE VIEW run_status AS
WITH mentioned AS (
    SELECT run_id FROM runs
    UNION SELECT run_id FROM rosters
    UNION SELECT run_id FROM cells
    UNION SELECT run_id FROM workers
    UNION SELECT run_id FROM verdicts
    UNION SELECT run_id FROM round_medians
),
worker_device AS (
    SELECT run_id, min(device) AS device FROM workers GROUP BY run_id
),
events AS (
    SELECT
        run_id,
        arg_min(producer, event_seq) AS producer,
        arg_min(device, event_seq) AS device,
        arg_min(driver_version, event_seq) AS driver_version,
        arg_min(power_limit_w, event_seq) AS power_limit_w,
        arg_min(policy_sha256, event_seq) AS policy_sha256,
        arg_min(source_revision, event_seq) AS source_revision,
        arg_min(source_sha256, event_seq) AS source_sha256,
        bool_or(source_dirty) AS source_dirty,
        arg_min(seed, event_seq) AS seed,
        arg_min(plan_json, event_seq) AS plan_json,
        min(recorded_at) AS started_at,
        arg_max(event, event_seq) AS last_event,
        max(recorded_at) AS last_event_at,
        count(*) AS events
    FROM runs
    GROUP BY run_id
)
SELECT
    m.run_id,
    coalesce(e.producer, 'unregistered') AS producer,
    coalesce(e.device, w.device, 'unknown') AS device,
    e.driver_version,
    e.power_limit_w,
    e.policy_sha256,
    e.source_revision,
    e.source_sha256,
    e.source_dirty,
    e.seed,
    e.plan_json,
    e.started_at,
    e.last_event,
    e.last_event_at,
    coalesce(e.events, 0) AS events
FROM mentioned m
LEFT JOIN events e ON e.run_id = m.run_id
LEFT JOIN worker_device w ON w.run_id = m.run_id;
