"""Served engines: requests are accounted for, and measured runs did comparable work."""

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Suite

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
