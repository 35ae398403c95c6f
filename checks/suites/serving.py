"""Served engines: requests are accounted for, and measured runs did comparable work."""

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Status, Suite

_SATURATED = 0.9  # of one core: the client is one process with one thread

SERVING = Suite(
    "serving",
    "served runs account for every request and were not answered from a cache",
    (
        Rule(
            "serving.requests-accounted",
            "Measured runs know how many requests failed: completed and failed make up those asked.",
            """
            SELECT serving_id, engine, requests_asked, requests_completed, requests_failed,
                abs(requests_asked - requests_completed - requests_failed) AS unaccounted
            FROM serving_runs WHERE evidence = 'measured' AND status = 'passed' ORDER BY serving_id
            """,
            (Between("unaccounted", high=0),),
            "{serving_id} ({engine}): {requests_completed} completed and {requests_failed} failed of "
            "{requests_asked}",
            empty="no served run was measured and passed",
            tables=("serving_measured",),
        ),
        Rule(
            "serving.failures-bounded",
            "The share of failed requests is within the policy.",
            """
            SELECT r.serving_id, r.engine, r.requests_failed, r.requests_asked,
                r.requests_failed / nullif(r.requests_asked, 0)::DOUBLE AS failure_share,
                (SELECT TRY_CAST(value AS DOUBLE) FROM policy_today WHERE key = 'serving.max_failure_share')
                    AS bound
            FROM serving_runs r WHERE r.evidence = 'measured' AND r.status = 'passed' ORDER BY r.serving_id
            """,
            (AtLeast("bound", "failure_share"),),
            "{serving_id} ({engine}): {requests_failed} of {requests_asked} requests failed (share "
            "{failure_share}, at most {bound})",
            empty="no served run was measured and passed",
            tables=("serving_measured",),
        ),
        Rule(
            "serving.cache-off",
            "The prefix cache was off, or on without a hit.",
            """
            SELECT serving_id, engine, coalesce(prefix_cache, 'unknown') AS prefix_cache, prefix_cache_hits,
                CASE WHEN prefix_cache = 'off' OR (prefix_cache = 'on' AND prefix_cache_hits = 0) THEN TRUE
                     WHEN prefix_cache = 'on' AND prefix_cache_hits > 0 THEN FALSE END AS uncontaminated
            FROM serving_runs WHERE evidence = 'measured' AND status = 'passed' ORDER BY serving_id
            """,
            (OneOf("uncontaminated", (True,)),),
            "{serving_id} ({engine}): prefix cache {prefix_cache}, hits {prefix_cache_hits}",
            empty="no served run was measured and passed",
            tables=("serving_measured",),
        ),
        Rule(
            "serving.requests-recorded",
            "The raw requests of every measured run are in the lake, and its figures follow from them.",
            """
            WITH kept AS (
                SELECT serving_id, count(*) AS recorded, count(*) FILTER (WHERE ok) AS usable,
                    sum(output_tokens) FILTER (WHERE ok) AS tokens, median(ttft_ms) FILTER (WHERE ok) AS ttft_ms
                FROM serving_requests GROUP BY serving_id
            )
            SELECT s.serving_id, s.engine, s.requests_asked, coalesce(k.recorded, 0) AS recorded,
                abs(s.requests_asked - coalesce(k.recorded, 0))
                    + abs(s.requests_completed - coalesce(k.usable, 0)) AS missing,
                coalesce(abs(k.tokens / nullif(s.duration_s, 0) / s.output_tokens_per_s - 1), 1) AS throughput_off,
                CASE WHEN k.ttft_ms IS NULL AND s.ttft_p50_ms IS NULL THEN 0
                    ELSE coalesce(abs(k.ttft_ms / s.ttft_p50_ms - 1), 1) END AS ttft_off
            FROM serving_measured s LEFT JOIN kept k USING (serving_id)
            WHERE s.status = 'passed' ORDER BY s.serving_id
            """,
            (
                Between("missing", high=0),
                Between("throughput_off", high=1e-6),
                Between("ttft_off", high=1e-6),
            ),
            "{serving_id} ({engine}): {recorded} of {requests_asked} requests are recorded; its throughput is off "
            "by {throughput_off} of what they give, its time to first token by {ttft_off}",
            empty="no served run was measured and passed",
            tables=("serving_measured",),
        ),
        Rule(
            "serving.lengths-reached",
            "Answers have the length that was asked for.",
            """
            SELECT serving_id, engine, output_tokens, requests_completed * output_tokens_asked AS asked,
                abs(output_tokens / nullif(requests_completed * output_tokens_asked, 0)::DOUBLE - 1) AS deviation,
                (SELECT TRY_CAST(value AS DOUBLE) FROM policy_today WHERE key = 'serving.token_tolerance') AS bound
            FROM serving_measured WHERE status = 'passed' ORDER BY serving_id
            """,
            (AtLeast("bound", "deviation"),),
            "{serving_id} ({engine}) gave {output_tokens} output tokens where {asked} were asked for",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
        Rule(
            "serving.client-not-the-bottleneck",
            "The client had processor time to spare.",
            """
            SELECT serving_id, engine, coalesce(TRY_CAST(extra_json ->> 'client_cpu_share' AS DOUBLE), 0) AS share
            FROM serving_measured WHERE status = 'passed' ORDER BY serving_id
            """,
            (Between("share", high=_SATURATED),),
            "{serving_id} ({engine}): the client used {share} of one core, so its own speed may be what was measured",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
        Rule(
            "serving.compared",
            "Engines under the same load did comparable work, often enough.",
            """
            SELECT device, model, max_concurrency, metric, outcome, coalesce(reason, '') AS reason
            FROM serving WHERE evidence = 'measured' AND outcome <> 'sole entrant' ORDER BY ALL
            """,
            (OneOf("outcome", ("leads", "level")),),
            "{metric} on {device}, {model}, {max_concurrency} in flight: {outcome}, {reason}",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
        Rule(
            "serving.refused",
            "Served runs that were refused or cannot be used.",
            "SELECT serving_id, engine, status, coalesce(reason, 'no reason given') AS reason "
            "FROM serving_runs ORDER BY serving_id",
            (OneOf("status", ("passed",)),),
            "{serving_id} ({engine}) is {status}: {reason}",
            severity=Severity.WARNING,
        ),
    ),
    tables=("serving_runs",),
)
