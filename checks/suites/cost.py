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
