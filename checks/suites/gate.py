"""Correctness gate: next-token decisions of a candidate beside the stock model's, judged by the run's own policy."""

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Status, Suite

# Of each model, context and device the run that speaks. Thresholds come from the policy text that it was registered under.
SPEAKING = "FROM gate_results g JOIN gate_runs r USING (run_id) WHERE r.speaks"
ORDER = "ORDER BY r.device, r.model, g.config_order, g.config"
CANDIDATES = f"{SPEAKING} AND g.role = 'candidate' AND g.status = 'measured' {ORDER}"
WHO = "{device} {model} run {run_id}: {config}"
NOBODY = "no candidate was measured"

GATE = Suite(
    "gate",
    "candidates decide like the stock model, within the policy",
    (
        Rule(
            "gate.configs-complete",
            "Every configuration that the policy requires or the run planned was measured.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.status, coalesce(g.reason, 'no reason given') AS why "
            f"{SPEAKING} {ORDER}",
            (OneOf("status", ("measured",)),),
            f"{WHO} is {{status}}: {{why}}",
            empty="the lake has positions, and no run of the gate that they belong to",
        ),
        Rule(
            "gate.control",
            "The stock model against itself disagrees no more than the policy allows; else the run is void.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.disagreements, g.positions, "
            f"g.control_disagreements AS allowed {SPEAKING} AND g.role = 'control' {ORDER}",
            (AtLeast("allowed", "disagreements"),),
            f"{WHO} disagrees at {{disagreements}} of {{positions}} positions, allowed are {{allowed}}",
            empty="the gate has no control (stock_vs_stock)",
        ),
        Rule(
            "gate.positions",
            "Each configuration was compared at as many positions as the policy asks for.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.positions, g.min_positions {SPEAKING} "
            f"AND g.status = 'measured' {ORDER}",
            (AtLeast("positions", "min_positions"),),
            f"{WHO} has {{positions}} of {{min_positions}} positions",
            empty="nothing was measured",
        ),
        Rule(
            "gate.same-subject",
            "All configurations of a run read the same tokens with the same model, beside the same stock decisions.",
            """
            WITH subjects AS (
                SELECT run_id, config, any_value(model) AS model, count(*) AS positions,
                    coalesce(one_or_two(tokens_sha256), 'unknown') AS tokens_sha256
                FROM gate_positions GROUP BY run_id, config
            )
            SELECT r.device, r.model, r.run_id, count(DISTINCT p.tokens_sha256) AS texts,
                count(DISTINCT p.model) AS models, count(DISTINCT p.positions) AS sizes,
                greatest(count(DISTINCT a.reference_sha256), 1) AS "references"
            FROM gate_runs r
            JOIN subjects p USING (run_id)
            LEFT JOIN gate_attempts a ON a.run_id = p.run_id AND a.config = p.config
            WHERE r.speaks GROUP BY r.device, r.model, r.run_id ORDER BY ALL
            """,
            (
                Between("texts", low=1, high=1),
                Between("models", low=1, high=1),
                Between("sizes", low=1, high=1),
                Between("references", low=1, high=1),
            ),
            "{device} {model} run {run_id}: {texts} texts, {models} models, {sizes} numbers of positions, {references} "
            "references",
            empty="nothing was measured",
        ),
        Rule(
            "gate.kernels-called",
            "The kernel under test was really called in every layer.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.kernel_calls {SPEAKING} AND g.role = 'candidate' "
            f"AND g.status IN ('measured', 'void') {ORDER}",
            (Between("kernel_calls", low=1),),
            f"{WHO} called its kernel {{kernel_calls}} times in some layer",
            empty=NOBODY,
        ),
        Rule(
            "gate.agreement",
            "Each candidate decides like stock as often as the policy of its precision asks.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.agreement, g.min_agreement {CANDIDATES}",
            (AtLeast("agreement", "min_agreement"),),
            f"{WHO} agrees in {{agreement}} of the positions, at least {{min_agreement}} are asked",
            empty=NOBODY,
        ),
        Rule(
            "gate.large-gaps",
            "Where a candidate decides otherwise, stock was nearly undecided: large gaps stay within their share.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.large_gaps, g.large_gap_share, g.max_large_gap_share, "
            f"g.widest_gap_logits, g.large_gap_logits {CANDIDATES}",
            (AtLeast("max_large_gap_share", "large_gap_share"),),
            f"{WHO} has {{large_gaps}} gaps over {{large_gap_logits}} logits (a share of {{large_gap_share}}, at most "
            "{max_large_gap_share}; widest {widest_gap_logits})",
            empty=NOBODY,
        ),
        Rule(
            "gate.perplexity",
            "No candidate predicts the text worse than stock by more than the policy of its precision allows.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.perplexity_increase, g.max_perplexity_increase "
            f"{CANDIDATES}",
            (AtLeast("max_perplexity_increase", "perplexity_increase"),),
            f"{WHO} has a perplexity higher by {{perplexity_increase}}, at most {{max_perplexity_increase}}",
            empty=NOBODY,
        ),
        Rule(
            "gate.drift",
            "In no layer do states drift further from stock's than the policy's multiple of what rounding to bf16 does.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.drift_ratio, g.max_drift_ratio {CANDIDATES}",
            (AtLeast("max_drift_ratio", "drift_ratio"),),
            f"{WHO} drifts {{drift_ratio}} times as far as stock bf16 from float32, at most {{max_drift_ratio}}",
            empty=NOBODY,
        ),
        Rule(
            "gate.experts",
            "Each expert alone gives what the stock expert gives: within an error, and with a gain of one.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.experts, g.expert_error, g.max_expert_error, "
            f"g.gain_error, g.max_gain_error {CANDIDATES}",
            (
                Between("experts", low=1),
                AtLeast("max_expert_error", "expert_error"),
                AtLeast("max_gain_error", "gain_error"),
            ),
            f"{WHO}: of {{experts}} experts the worst has error {{expert_error}} (at most {{max_expert_error}}), gain "
            "off by {gain_error} (at most {max_gain_error})",
            empty=NOBODY,
        ),
        Rule(
            "gate.no-worse-than-stock",
            "Candidates that the policy allows no loss are not wrong where stock bf16 is right more often than the "
            "other way round (McNemar's exact one-sided test; right is what the weights decide in float32).",
            f"SELECT r.device, r.model, g.run_id, g.config, g.positions, g.pairs, g.stock_only_right, "
            f"g.candidate_only_right, g.p_worse, g.worse_alpha {SPEAKING} AND g.role = 'candidate' AND g.status = 'measured' "
            f"AND g.worse_alpha IS NOT NULL {ORDER}",
            (AtLeast("p_worse", "worse_alpha"), AtLeast("pairs", "positions"), Between("pairs", low=1)),
            f"{WHO} is wrong at {{stock_only_right}} positions where stock is right, right at "
            "{candidate_only_right} where stock is wrong (p {p_worse}, level {worse_alpha}; {pairs} pairs at {positions} "
            "positions)",
            empty="no candidate that may not be worse was measured",
        ),
        Rule(
            "gate.verdicts",
            "The verdict of each configuration, as queries/gate.sql prints it, is that of the rules above.",
            f"SELECT r.device, r.model, g.run_id, g.config, g.verdict, coalesce(g.reason, 'no reason given') AS why "
            f"{SPEAKING} {ORDER}",
            (OneOf("verdict", ("passed", "yardstick")),),
            f"{WHO} is {{verdict}}: {{why}}",
            empty="there is no verdict",
        ),
        Rule(
            "gate.policy-unchanged",
            "The thresholds of the runs that speak are those of today: the keys that differ are named.",
            """
            WITH keys AS (SELECT key FROM policy_today UNION SELECT key FROM policy_then)
            SELECT
                r.device, r.model, r.run_id,
                CASE WHEN count(o.key) > 0 THEN coalesce(string_agg(
                    k.key || ' was ' || coalesce(o.value, 'absent') || ', is ' || coalesce(n.value, 'absent'),
                    '; ' ORDER BY k.key
                ) FILTER (WHERE o.value IS DISTINCT FROM n.value), 'nothing') END AS changed
            FROM gate_runs r
            JOIN keys k ON k.key = 'version' OR starts_with(k.key, 'gate.')
            LEFT JOIN policy_then o ON o.policy_sha256 = r.policy_sha256 AND o.key = k.key
            LEFT JOIN policy_today n ON n.key = k.key
            WHERE r.speaks
            GROUP BY r.device, r.model, r.run_id ORDER BY ALL
            """,
            (OneOf("changed", ("nothing",)),),
            "{device} {model} run {run_id} was measured under other thresholds than today's ({changed}); run the gate "
            "again",
        ),
        Rule(
            "gate.policy-as-registered",
            "The text of each policy of a gate has the hash under which the run names it: nobody edited it since.",
            """
            SELECT r.run_id, r.policy_sha256, sha256(p.policy_toml) AS found,
                sha256(p.policy_toml) = r.policy_sha256 AS agrees
            FROM gate_runs r LEFT JOIN policies p USING (policy_sha256)
            ORDER BY ALL
            """,
            (OneOf("agrees", (True,)),),
            "run {run_id} names policy {policy_sha256}, and the text stored under it has the hash {found}",
        ),
        Rule(
            "gate.measured-once",
            "Models that were gated more than once in a context on a device: the latest complete run speaks, these are the others.",
            """
            SELECT o.device, o.model, o.run_id, o.last_event, coalesce(o.not_passed_configs, 'all passed') AS found,
                s.run_id AS speaker, o.speaks
            FROM gate_runs o
            JOIN gate_runs s ON s.device = o.device AND s.model = o.model AND s.speaks
                AND s.context_tokens IS NOT DISTINCT FROM o.context_tokens
            ORDER BY ALL
            """,
            (OneOf("speaks", (True,)),),
            "{device} {model}: run {run_id} ({last_event}; {found}) is superseded by run {speaker}",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
        Rule(
            "gate.repeats",
            "Complete runs of the same sources on the same model, tokens and device come to the same verdict.",
            """
            SELECT g.config, r.device, r.model, r.source_sha256, count(DISTINCT g.run_id) AS runs,
                string_agg(DISTINCT g.verdict, ', ' ORDER BY g.verdict) AS verdicts, count(DISTINCT g.verdict) AS n
            FROM gate_results g JOIN gate_runs r USING (run_id)
            WHERE r.complete
            GROUP BY g.config, r.device, r.model, r.source_sha256, r.model_sha256, r.tokens_sha256, r.policy_sha256
            ORDER BY ALL
            """,
            (Between("n", low=1, high=1),),
            "{device} {model}: {config} came to {verdicts} in {runs} runs of the same sources",
            on_failure=Status.UNJUDGED,
            empty="no run of the gate is complete",
        ),
        Rule(
            "gate.sources-clean",
            "The runs that speak were measured from committed sources.",
            """
            SELECT r.device, r.model, r.run_id, s.source_revision, coalesce(s.source_dirty, FALSE) AS source_dirty
            FROM gate_runs r JOIN run_status s USING (run_id) WHERE r.speaks ORDER BY ALL
            """,
            (OneOf("source_dirty", (False,)),),
            "{device} {model} run {run_id} was measured from modified sources (revision {source_revision})",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
    tables=("gate_positions", "gate_configs"),
)
