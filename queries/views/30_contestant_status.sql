-- materialise
-- contestant_status: a row is run, cell, mode, contestant of the roster; measured, partial, refused or missing,
-- and why ('derived': it follows from the samples, no verdict says it). time_us is the median over rounds of the
-- rounds' medians.
CREATE VIEW contestant_status AS
WITH facts AS (
    SELECT
        c.run_id,
        r.device,
        c.cell_id,
        c.timing_mode,
        c.workload,
        c.precision,
        c.routing,
        c.tokens,
        o.contestant,
        o.house,
        o.role,
        o.control_of,
        o.entered,
        coalesce(k.rounds, 0) AS rounds,
        coalesce(k.sessions, 0) AS sessions,
        coalesce(k.samples, 0) AS samples,
        coalesce(k.invalid_samples, 0) AS invalid_samples,
        k.time_us,
        coalesce(v.passed, FALSE) AS passed,
        v.own_refusal,
        v.latest,
        v.relative_error,
        v.tolerance,
        v.repeatability,
        v.config_source,
        v.launches,
        f.reference_floor_us,
        f.datasheet_floor_us,
        p.refuse_below_datasheet,
        coalesce(p.min_rounds, 1) AS min_rounds,
        k.device AS worker_device,
        k.device_uuid,
        k.l2_state,
        k.torch_version,
        k.triton_version,
        k.package_version,
        k.source_sha256
    FROM run_cells c
    JOIN run_status r ON r.run_id = c.run_id
    JOIN run_policy p ON p.run_id = c.run_id
    JOIN run_roster o ON o.run_id = c.run_id AND o.precision = c.precision
    LEFT JOIN contestant_conditions k
        ON k.run_id = c.run_id AND k.cell_id = c.cell_id AND k.timing_mode = c.timing_mode
        AND k.contestant = o.contestant
    LEFT JOIN verdict_summary v
        ON v.run_id = c.run_id AND v.cell_id = c.cell_id AND v.timing_mode = c.timing_mode
        AND v.contestant = o.contestant
    LEFT JOIN floors f ON f.run_id = c.run_id AND f.cell_id = c.cell_id
),
judged AS (
    SELECT
        *,
        CASE
            WHEN own_refusal IS NOT NULL
                THEN {
                    'status': 'refused', 'code': own_refusal.code, 'fault': 'contestant',
                    'detail': own_refusal.detail
                }
            WHEN time_us < refuse_below_datasheet * datasheet_floor_us
                THEN {
                    'status': 'refused', 'code': 'below-floor', 'fault': 'contestant',
                    'detail': printf(
                        '%.2f us is under %.2f of the datasheet floor, %.2f us',
                        time_us, refuse_below_datasheet, datasheet_floor_us
                    )
                }
            WHEN invalid_samples > 0
                THEN {
                    'status': 'refused', 'code': 'invalid-time', 'fault': 'environment',
                    'detail': printf('%d of %d times are not positive', invalid_samples, samples)
                }
            WHEN latest.status <> 'passed'
                THEN {'status': 'refused', 'code': latest.code, 'fault': 'environment', 'detail': latest.detail}
            WHEN NOT entered
                THEN {
                    'status': 'missing', 'code': 'left-out', 'fault': 'environment',
                    'detail': 'not entered in the run'
                }
            WHEN rounds = 0
                THEN {
                    'status': 'missing', 'code': 'no-samples', 'fault': 'environment',
                    'detail': 'no sample in this cell'
                }
            WHEN NOT passed
                THEN {
                    'status': 'missing', 'code': 'no-verdict', 'fault': 'environment',
                    'detail': 'samples without a passed comparison of an output'
                }
            WHEN rounds < min_rounds
                THEN {
                    'status': 'partial', 'code': 'too-few-rounds', 'fault': 'environment',
                    'detail': printf('%d of %d rounds', rounds, min_rounds)
                }
            ELSE {'status': 'measured', 'code': NULL, 'fault': NULL, 'detail': NULL}
        END AS verdict
    FROM facts
)
SELECT
    run_id,
    device,
    cell_id,
    timing_mode,
    workload,
    precision,
    routing,
    tokens,
    contestant,
    house,
    role,
    control_of,
    entered,
    verdict.status AS status,
    verdict.code AS reason_code,
    verdict.fault AS fault,
    verdict.detail AS detail,
    own_refusal IS NULL AND coalesce(verdict.code IN ('below-floor', 'invalid-time'), FALSE) AS derived,
    rounds,
    sessions,
    samples,
    invalid_samples,
    time_us,
    reference_floor_us,
    datasheet_floor_us,
    coalesce(time_us < reference_floor_us, FALSE) AS below_reference_floor,
    relative_error,
    tolerance,
    repeatability,
    config_source,
    launches,
    worker_device,
    device_uuid,
    l2_state,
    torch_version,
    triton_version,
    package_version,
    source_sha256
FROM judged;
