"""Integrity: what the lake says about itself agrees, and what had to come first came first."""

from checks.model import Between, OneOf, Rule, Severity, Status, Suite

# Runs whose word is in the winners table, or stands for a served engine. An older run that was superseded cannot
# close the gate.
SPEAKING = (
    "(SELECT DISTINCT run_id FROM winners UNION SELECT run_id FROM serving_entrants WHERE run_id IS NOT NULL)"
)

# What a producer of this package writes: without any of it there is no run to ask about.
MEASURED = (
    *(
        "runs",
        "samples",
        "verdicts",
        "gate_positions",
        "gate_configs",
        "decode_steps",
        "decode_configs",
        "ceilings",
    ),
    "serving_measured",
)
RACED = ("samples", "verdicts")

INTEGRITY = Suite(
    "integrity",
    "the lake is readable, consistent, and registered before it was measured",
    (
        Rule(
            "integrity.files-readable",
            "Every file of the lake can be read. What a damaged file held is unknown, so nothing is judged.",
            "SELECT table_name, file, status, coalesce(reason, 'no reason given') AS reason FROM lake_files "
            "ORDER BY table_name, file",
            (OneOf("status", ("ok", "conflict")),),
            "{table_name}/{file} is {status}: {reason}",
            on_failure=Status.UNJUDGED,
            empty="the lake has no files: nothing was measured",
        ),
        Rule(
            "integrity.warehouse-current",
            "The warehouse was built from the lake as it is now.",
            "SELECT lake, state FROM lake_state ORDER BY lake",
            (OneOf("state", ("current", "not at hand")),),
            "the warehouse was not built from {lake} as it is now ({state}); run `warehouse build`",
            on_failure=Status.UNJUDGED,
        ),
        Rule(
            "integrity.report-current",
            "The report at hand was written from this lake, under this policy, and was not edited since.",
            "SELECT receipt, aspect, state FROM receipt_state ORDER BY aspect",
            (OneOf("state", ("as written", "no report")),),
            "the report of {receipt} is stale: {aspect} {state}; run `checks report`",
        ),
        Rule(
            "integrity.runs-registered",
            "Every run that any table mentions has its start in `runs`.",
            """
            SELECT s.run_id, count(r.run_id) AS starts
            FROM run_status s LEFT JOIN runs r ON r.run_id = s.run_id AND r.event = 'started'
            GROUP BY s.run_id
            UNION ALL
            SELECT m.run_id, count(r.run_id)
            FROM (
                SELECT run_id FROM gate_positions UNION SELECT run_id FROM gate_configs
                UNION SELECT run_id FROM gate_experts UNION SELECT run_id FROM decode_steps
                UNION SELECT run_id FROM ceilings
                UNION SELECT run_id FROM serving_runs WHERE run_id IS NOT NULL
            ) m
            LEFT JOIN runs r ON r.run_id = m.run_id AND r.event = 'started'
            WHERE m.run_id NOT IN (SELECT run_id FROM run_status)
            GROUP BY m.run_id
            ORDER BY ALL
            """,
            (Between("starts", low=1, high=1),),
            "run {run_id} has {starts} start events in the lake",
            tables=MEASURED,
        ),
        Rule(
            "integrity.samples-have-cell",
            "Every cell that was sampled or judged is described in `cells`.",
            """
            SELECT m.run_id, m.cell_id, count(c.cell_id) AS described
            FROM (SELECT run_id, cell_id FROM round_medians UNION SELECT run_id, cell_id FROM verdicts) m
            LEFT JOIN cells c USING (run_id, cell_id)
            GROUP BY ALL ORDER BY ALL
            """,
            (Between("described", low=1, high=1),),
            "run {run_id}: {cell_id} has {described} rows in cells",
            tables=RACED,
        ),
        Rule(
            "integrity.samples-have-roster",
            "Everyone who was sampled or judged stands in the run's roster, as entered if sampled.",
            """
            SELECT
                m.run_id, m.precision, m.contestant,
                CASE WHEN o.contestant IS NULL THEN 'not in the roster'
                     WHEN m.sampled AND NOT o.entered THEN 'not entered in the roster'
                     ELSE 'listed' END AS roster
            FROM (
                SELECT run_id, contestant, split_part(cell_id, '/', 2) AS precision,
                    bool_or(sampled) AS sampled
                FROM (
                    SELECT run_id, cell_id, contestant, TRUE AS sampled FROM round_medians
                    UNION SELECT run_id, cell_id, contestant, FALSE FROM verdicts
                )
                GROUP BY ALL
            ) m
            LEFT JOIN rosters o
                ON o.run_id = m.run_id AND o.contestant = m.contestant AND o.precision = m.precision
            ORDER BY ALL
            """,
            (OneOf("roster", ("listed",)),),
            "run {run_id}: {contestant} ({precision}) is {roster}",
            tables=RACED,
        ),
        Rule(
            "integrity.samples-have-worker",
            "Every (contestant, session) that was sampled has the worker process that ran it.",
            """
            SELECT m.run_id, m.contestant, m.session, count(w.run_id) AS workers
            FROM (SELECT DISTINCT run_id, contestant, session FROM round_medians) m
            LEFT JOIN workers w USING (run_id, contestant, session)
            GROUP BY ALL ORDER BY ALL
            """,
            (Between("workers", low=1),),
            "run {run_id}: {contestant} has samples in session {session} and {workers} workers",
            tables=RACED,
        ),
        Rule(
            "integrity.times-positive",
            "Every time is over zero.",
            """
            SELECT run_id, cell_id, timing_mode, contestant, sum(samples) AS samples,
                sum(invalid_samples) AS not_positive
            FROM round_medians GROUP BY ALL ORDER BY ALL
            """,
            (Between("not_positive", high=0), Between("samples", low=1)),
            "run {run_id}: {cell_id} {timing_mode} {contestant}: {not_positive} of {samples} times are not "
            "positive",
            tables=RACED,
        ),
        Rule(
            "integrity.same-inputs",
            "Each sampled contestant of a cell received the inputs that the cell was drawn with.",
            """
            SELECT
                m.run_id, m.cell_id, m.contestant, any_value(c.inputs_sha256) AS drawn,
                string_agg(DISTINCT v.inputs_sha256, ', ' ORDER BY v.inputs_sha256) AS received,
                bool_and(v.inputs_sha256 = c.inputs_sha256) AS equal
            FROM (SELECT DISTINCT run_id, cell_id, contestant FROM round_medians) m
            LEFT JOIN cells c USING (run_id, cell_id)
            LEFT JOIN verdicts v USING (run_id, cell_id, contestant)
            GROUP BY m.run_id, m.cell_id, m.contestant ORDER BY ALL
            """,
            (OneOf("equal", (True,)),),
            "run {run_id}: {cell_id} {contestant} received inputs {received}, drawn were {drawn}",
            tables=RACED,
        ),
        Rule(
            "integrity.policy-registered-first",
            "The policy of a run was in the lake before its first verdict, device state, worker, gate "
            "configuration or served point.",
            """
            WITH firsts AS (
                SELECT run_id, min(recorded_at) AS first_at
                FROM (
                    SELECT run_id, recorded_at FROM verdicts WHERE stage <> 'plan'
                    UNION ALL SELECT run_id, recorded_at FROM device_states
                    UNION ALL SELECT run_id, recorded_at FROM workers
                    UNION ALL SELECT run_id, started_at FROM gate_configs
                    UNION ALL SELECT run_id, recorded_at FROM serving_measured
                )
                GROUP BY run_id
            )
            SELECT
                s.run_id, s.policy_sha256, p.registered_at, f.first_at,
                epoch(f.first_at) - epoch(p.registered_at) AS seconds_before
            FROM run_status s
            LEFT JOIN policies p ON p.policy_sha256 = s.policy_sha256
            JOIN firsts f ON f.run_id = s.run_id
            ORDER BY ALL
            """,
            (Between("seconds_before", low=0),),
            "run {run_id}: policy {policy_sha256} registered at {registered_at}, measured from {first_at}",
            tables=MEASURED,
        ),
        Rule(
            "integrity.roster-registered-first",
            "A contestant stood in the roster before its own first verdict.",
            """
            WITH firsts AS (
                SELECT run_id, contestant, split_part(cell_id, '/', 2) AS precision, min(recorded_at) AS first_at
                FROM verdicts WHERE stage <> 'plan' GROUP BY ALL
            )
            SELECT
                f.run_id, f.contestant, f.precision, o.recorded_at, f.first_at,
                epoch(f.first_at) - epoch(o.recorded_at) AS seconds_before
            FROM firsts f LEFT JOIN rosters o USING (run_id, contestant, precision)
            ORDER BY ALL
            """,
            (Between("seconds_before", low=0),),
            "run {run_id}: {contestant} ({precision}) entered the roster at {recorded_at}, judged from {first_at}",
            tables=RACED,
        ),
        Rule(
            "integrity.policy-unchanged",
            "The runs that speak were measured under the thresholds of today: of the part of the policy that "
            "bears their producer's name, the keys that differ are named.",
            f"""
            WITH keys AS (SELECT key FROM policy_today UNION SELECT key FROM policy_then)
            SELECT
                s.run_id, s.policy_sha256,
                CASE WHEN count(o.key) > 0 THEN coalesce(string_agg(
                    k.key || ' was ' || coalesce(o.value, 'absent') || ', is ' || coalesce(n.value, 'absent'),
                    '; ' ORDER BY k.key
                ) FILTER (WHERE o.value IS DISTINCT FROM n.value), 'nothing') END AS changed
            FROM run_status s
            JOIN keys k ON k.key = 'version'
                OR starts_with(k.key, CASE s.producer WHEN 'serve' THEN 'serving' ELSE s.producer END || '.')
            LEFT JOIN policy_then o ON o.policy_sha256 = s.policy_sha256 AND o.key = k.key
            LEFT JOIN policy_today n ON n.key = k.key
            WHERE s.run_id IN {SPEAKING}
            GROUP BY s.run_id, s.policy_sha256 ORDER BY ALL
            """,
            (OneOf("changed", ("nothing",)),),
            "run {run_id} was measured under another policy than today's ({changed}); register a new run",
            tables=MEASURED,
        ),
        Rule(
            "integrity.identities-unique",
            "No two files hold one identity with different values. (Equal rows are kept once.)",
            "SELECT table_name, file, status <> 'conflict' AS agrees, reason FROM lake_files ORDER BY ALL",
            (OneOf("agrees", (True,)),),
            "{table_name}/{file} contradicts another file: {reason}",
            empty="the lake has no files: nothing was measured",
        ),
        Rule(
            "integrity.runs-ended",
            "Every run came to its end.",
            "SELECT run_id, producer, last_event FROM run_status ORDER BY run_id",
            (OneOf("last_event", ("finished",)),),
            "run {run_id} ({producer}) ended with '{last_event}'",
            severity=Severity.WARNING,
            tables=MEASURED,
        ),
        Rule(
            "integrity.sources-clean",
            "The runs that speak were measured from committed sources.",
            f"""
            SELECT run_id, source_revision, coalesce(source_dirty, FALSE) AS source_dirty
            FROM run_status WHERE run_id IN {SPEAKING} ORDER BY run_id
            """,
            (OneOf("source_dirty", (False,)),),
            "run {run_id} was measured from modified sources (revision {source_revision})",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
)
