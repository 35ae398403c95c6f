"""Decode inside a model: what was timed decided like the stock model, and nothing that was planned is missing."""

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Status, Suite

# Of each model and device the run that speaks. Thresholds come from the policy text that it was registered under.
SPEAKING = "FROM decode_rates d JOIN decode_runs r USING (run_id) WHERE r.speaks"
ORDER = "ORDER BY d.device, d.model, d.config"
TIMED = f"{SPEAKING} AND d.status IN ('timed', 'unchecked') {ORDER}"
WHO = "{device} {model} run {run_id}: {config}"
NOBODY = "no configuration was timed"

DECODE = Suite(
    "decode",
    "what decodes in a model is checked against the stock model's tokens before it is timed",
    (
        Rule(
            "decode.configs-complete",
            "Every configuration that the policy requires or the run planned was timed, or was refused by its own fault.",
            f"""
            SELECT d.device, d.model, d.run_id, d.config, d.status,
                CASE d.status WHEN 'timed' THEN 'judged' WHEN 'refused' THEN
                    CASE d.fault WHEN 'contestant' THEN 'judged' ELSE 'not judged' END ELSE 'not judged' END AS outcome,
                coalesce(concat_ws(': ', d.reason_code, d.detail), '') AS why
            {SPEAKING} {ORDER}
            """,
            (OneOf("outcome", ("judged",)),),
            f"{WHO} is {{status}} {{why}}",
            empty="the lake has decode steps, and no run that they belong to",
        ),
        Rule(
            "decode.times-positive",
            "Every step's time is over zero.",
            """
            SELECT run_id, config, repeat, count(*) AS steps, min(time_us) AS least_us
            FROM decode_steps GROUP BY ALL ORDER BY ALL
            """,
            (Between("least_us", low=1e-9),),
            "run {run_id}: {config} repeat {repeat} has a step of {least_us} us",
            empty=NOBODY,
        ),
        Rule(
            "decode.repeats",
            "Each configuration was timed as often and as long as the policy asks.",
            f"SELECT d.device, d.model, d.run_id, d.config, d.repeats, d.min_repeats, d.steps, d.min_steps {TIMED}",
            (AtLeast("repeats", "min_repeats"), AtLeast("steps", "min_steps")),
            f"{WHO} has {{repeats}} repeats of {{steps}} steps; the policy asks for {{min_repeats}} of {{min_steps}}",
            empty=NOBODY,
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
            empty=NOBODY,
        ),
        Rule(
            "decode.output-checked",
            "What was timed had decided like the stock model, at every position of a repeat, within the gate's policy.",
            f"""
            SELECT d.device, d.model, d.run_id, d.config, d.status, d.positions, d.steps,
                coalesce(d.first_gap_logits, 0) AS first_gap_logits, d.large_gaps,
                TRY_CAST(g.value AS DOUBLE) AS large_gap_logits,
                ceil(TRY_CAST(s.value AS DOUBLE) * d.positions) AS allowed
            FROM decode_rates d
            JOIN decode_runs r USING (run_id)
            LEFT JOIN run_status t ON t.run_id = d.run_id
            LEFT JOIN policy_values g ON g.policy_sha256 = t.policy_sha256 AND g.key = 'gate.large_gap_logits'
            LEFT JOIN policy_values s
                ON s.policy_sha256 = t.policy_sha256 AND s.key = 'gate.max_large_gap_share.' || d.precision
            WHERE r.speaks AND d.status IN ('timed', 'unchecked') {ORDER}
            """,
            (
                OneOf("status", ("timed",)),
                AtLeast("positions", "steps"),
                AtLeast("large_gap_logits", "first_gap_logits"),
                AtLeast("allowed", "large_gaps"),
            ),
            f"{WHO} was timed ({{status}}) after {{positions}} checked decisions: {{large_gaps}} differ by more than "
            "{large_gap_logits} logits (allowed are {allowed}), the first that differs by {first_gap_logits}",
            empty=NOBODY,
        ),
        Rule(
            "decode.reference",
            "The stock model, checked against itself, decides the same everywhere.",
            f"""
            SELECT d.device, d.model, d.run_id, d.config, d.disagreements, d.positions
            {SPEAKING} AND d.config = 'stock_eager_bf16' {ORDER}
            """,
            (Between("disagreements", high=0), Between("positions", low=1)),
            f"{WHO} differs from itself at {{disagreements}} of {{positions}} positions",
            empty="no run has the stock model",
        ),
        Rule(
            "decode.kernels-called",
            "Where dispatch is named, it ran in every layer.",
            f"SELECT d.device, d.model, d.run_id, d.config, d.kernel_calls {SPEAKING} AND d.experts = 'dispatch' "
            f"AND d.status = 'timed' {ORDER}",
            (Between("kernel_calls", low=1),),
            f"{WHO} called dispatch {{kernel_calls}} times in some layer",
            empty="dispatch was not timed",
        ),
        Rule(
            "decode.same-subject",
            "All configurations of a run decode with one model after one prompt.",
            f"""
            SELECT d.device, r.model, d.run_id, count(DISTINCT d.model_sha256) AS models,
                count(DISTINCT d.prompt_sha256) AS prompts, count(DISTINCT d.positions) AS sizes
            {SPEAKING} AND d.status IN ('timed', 'unchecked') GROUP BY d.device, r.model, d.run_id ORDER BY ALL
            """,
            (
                Between("models", low=1, high=1),
                Between("prompts", low=1, high=1),
                Between("sizes", low=1, high=1),
            ),
            "{device} {model} run {run_id}: {models} models, {prompts} prompts, {sizes} numbers of positions",
            empty=NOBODY,
        ),
        Rule(
            "decode.possible",
            "No step is shorter than the device's datasheet allows for the weights that it must read.",
            f"""
            SELECT d.device, d.model, d.run_id, d.config, d.least_step_us,
                coalesce(d.least_possible_us, 0) AS least_possible_us, d.weight_bytes
            {TIMED}
            """,
            (AtLeast("least_step_us", "least_possible_us"), Between("weight_bytes", low=1)),
            f"{WHO} has a step of {{least_step_us}} us; reading its {{weight_bytes}} bytes takes {{least_possible_us}} us",
            empty=NOBODY,
        ),
        Rule(
            "decode.refused",
            "No configuration was refused.",
            f"""
            SELECT d.device, d.model, d.run_id, d.config, d.status, d.reason_code, d.detail
            {SPEAKING} AND d.status = 'refused' {ORDER}
            """,
            (OneOf("status", ("timed",)),),
            f"{WHO} was refused: {{reason_code}}, {{detail}}",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
    tables=("decode_steps", "decode_configs"),
)
