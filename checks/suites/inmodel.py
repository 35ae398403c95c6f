"""In-model decode and money: thin suites over their tables."""

from checks.model import Between, OneOf, Rule, Severity, Suite

DECODE = Suite(
    "decode",
    "decode steps inside a model are timed, and each configuration repeats its own output",
    (
        Rule(
            "decode.times-positive",
            "Every step's time is over zero.",
            """
            SELECT run_id, config, repeat, count(*) AS steps, min(time_us) AS least_us
            FROM decode_steps GROUP BY ALL ORDER BY ALL
            """,
            (Between("least_us", low=1e-9),),
            "run {run_id}: {config} repeat {repeat} has a step of {least_us} us",
        ),
        Rule(
            "decode.output-repeats",
            "A configuration gives one output for one prompt.",
            """
            SELECT run_id, config, prompt_sha256, count(DISTINCT output_sha256) AS outputs
            FROM decode_steps GROUP BY ALL ORDER BY ALL
            """,
            (Between("outputs", low=1, high=1),),
            "run {run_id}: {config} gave {outputs} different outputs for prompt {prompt_sha256}",
        ),
    ),
    tables=("decode_steps",),
)

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
