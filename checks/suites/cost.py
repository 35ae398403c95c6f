"""Money: every amount says what it is."""

from checks.model import Between, OneOf, Rule, Severity, Suite

COST = Suite(
    "cost",
    "every amount of money says what it is and where it comes from",
    (
        Rule(
            "cost.basis",
            "A billing record has an amount, a rate has a rate, and both have a source.",
            """
            SELECT cost_id, basis, source,
                CASE basis WHEN 'billing' THEN amount_usd WHEN 'rate' THEN rate_usd_per_h END AS usd
            FROM costs ORDER BY cost_id
            """,
            (OneOf("basis", ("billing", "rate")), Between("usd", low=0)),
            "cost {cost_id} ({basis}): {usd} USD, source {source}",
        ),
        Rule(
            "cost.period",
            "A bill says which time it pays for, and belongs to a run that is on record.",
            """
            SELECT cost_id, basis, run_id,
                basis <> 'billing' OR coalesce(period_s > 0, FALSE) AS timed,
                run_id IS NULL OR run_id IN (SELECT run_id FROM runs) AS known
            FROM costs ORDER BY cost_id
            """,
            (OneOf("timed", (True,)), OneOf("known", (True,))),
            "cost {cost_id} ({basis}) has no period, or its run {run_id} is not on record",
        ),
        Rule(
            "cost.source",
            "Where each amount comes from is written down.",
            "SELECT cost_id, source IS NOT NULL AND source <> '' AS sourced FROM costs ORDER BY cost_id",
            (OneOf("sourced", (True,)),),
            "cost {cost_id} names no source",
            severity=Severity.WARNING,
        ),
    ),
    tables=("costs",),
)
