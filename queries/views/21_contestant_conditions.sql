-- materialise
-- contestant_conditions: a row is run, cell, mode, contestant that has samples; how many, and what they were
-- taken on and with. Where the sessions of a contestant differ among themselves, two of the values stand with ' | '.
CREATE VIEW contestant_conditions AS
WITH session_workers AS (
    SELECT
        run_id,
        contestant,
        session,
        one_or_two(device) AS device,
        one_or_two(device_uuid) AS device_uuid,
        one_or_two(torch_version) AS torch_version,
        one_or_two(triton_version) AS triton_version,
        one_or_two(package_version) AS package_version,
        one_or_two(source_sha256) AS source_sha256
    FROM workers
    GROUP BY run_id, contestant, session
),
session_samples AS (
    SELECT
        run_id,
        cell_id,
        timing_mode,
        contestant,
        session,
        count(median_us) AS rounds,
        sum(samples) AS samples,
        sum(invalid_samples) AS invalid_samples,
        one_or_two(l2_state) AS l2_state
    FROM round_medians
    GROUP BY run_id, cell_id, timing_mode, contestant, session
),
known AS (
    SELECT
        s.*,
        coalesce(w.device, 'unknown') AS device,
        coalesce(w.device_uuid, 'unknown') AS device_uuid,
        coalesce(w.torch_version, 'unknown') AS torch_version,
        coalesce(w.triton_version, 'unknown') AS triton_version,
        coalesce(w.package_version, 'unknown') AS package_version,
        coalesce(w.source_sha256, 'unknown') AS source_sha256
    FROM session_samples s
    LEFT JOIN session_workers w USING (run_id, contestant, session)
),
times AS (
    SELECT run_id, cell_id, timing_mode, contestant, median(median_us) AS time_us
    FROM round_medians
    GROUP BY run_id, cell_id, timing_mode, contestant
),
merged AS (
    SELECT
        run_id,
        cell_id,
        timing_mode,
        contestant,
        sum(rounds)::BIGINT AS rounds,
        count(*) FILTER (WHERE rounds > 0) AS sessions,
        sum(samples)::BIGINT AS samples,
        sum(invalid_samples)::BIGINT AS invalid_samples,
        one_or_two(device) AS device,
        one_or_two(device_uuid) AS device_uuid,
        one_or_two(l2_state) AS l2_state,
        one_or_two(torch_version) AS torch_version,
        one_or_two(triton_version) AS triton_version,
        one_or_two(package_version) AS package_version,
        one_or_two(source_sha256) AS source_sha256
    FROM known
    GROUP BY run_id, cell_id, timing_mode, contestant
)
SELECT merged.*, times.time_us
FROM merged
JOIN times USING (run_id, cell_id, timing_mode, contestant);
