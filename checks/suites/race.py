"""Race: the runs that speak are complete, correct and quiet enough, and every win is one by the rules."""

from checks.model import AtLeast, Between, OneOf, Rule, Severity, Status, Suite

CELL = "{device} {cell_id} {timing_mode}"

# Contestants with a time, in the runs that speak.
TIMED = """
    FROM winners w
    JOIN contestant_status s USING (run_id, cell_id, timing_mode)
    WHERE s.samples > 0
"""

RACE = Suite(
    "race",
    "every cell has an outcome that the rules of a race allow",
    (
        Rule(
            "race.cells-complete",
            "No cell lacks a required rival.",
            """
            SELECT device, cell_id, timing_mode, run_id, outcome, required,
                coalesce(missing, 'nobody') AS missing, coalesce(reason, 'no reason given') AS reason
            FROM winners ORDER BY ALL
            """,
            (OneOf("outcome", ("win", "tie", "inconclusive", "sole entrant")),),
            f"{CELL} is {{outcome}}: missing {{missing}} ({{reason}})",
            empty="no race was measured: there is no cell to judge",
        ),
        Rule(
            "race.noise-decides-nothing",
            "Each mode of a run has an A/A control, and where its noise floor is over race.max_noise_floor of "
            "the run's policy (that of the device, else the default) no cell of the mode is won or tied.",
            """
            SELECT w.device, w.run_id, w.timing_mode, n.noise_floor, p.max_noise_floor AS bound,
                CASE WHEN n.noise_floor > p.max_noise_floor
                     THEN count(*) FILTER (WHERE w.outcome IN ('win', 'tie')) ELSE 0 END AS decided
            FROM winners w
            LEFT JOIN noise_floors n USING (run_id, timing_mode)
            LEFT JOIN run_policy p USING (run_id)
            GROUP BY w.device, w.run_id, w.timing_mode, n.noise_floor, p.max_noise_floor ORDER BY ALL
            """,
            (Between("noise_floor", low=0.0), Between("bound", low=0.0), Between("decided", high=0.0)),
            "{device} run {run_id} {timing_mode}: noise floor {noise_floor}, bound {bound}, {decided} cells decided",
        ),
        Rule(
            "race.quiet",
            "The noise floor of each mode of a run is under race.max_noise_floor; a mode over it is listed here.",
            """
            SELECT w.device, w.run_id, w.timing_mode, n.noise_floor, p.max_noise_floor AS bound, n.pairs
            FROM (SELECT DISTINCT device, run_id, timing_mode FROM winners) w
            LEFT JOIN noise_floors n USING (run_id, timing_mode)
            LEFT JOIN run_policy p USING (run_id)
            ORDER BY ALL
            """,
            (AtLeast("bound", "noise_floor"),),
            "{device} run {run_id} {timing_mode}: noise floor {noise_floor}, bound {bound}, {pairs} pairs; "
            "nothing is decided in this mode",
            severity=Severity.WARNING,
        ),
        Rule(
            "race.above-floor",
            "No contestant is faster than the device's datasheet allows: such a time is an error of "
            "measurement or of the byte count, whoever it belongs to.",
            f"""
            SELECT w.device, w.cell_id, w.timing_mode, s.contestant, s.time_us, s.datasheet_floor_us,
                CASE WHEN s.reason_code IS NOT DISTINCT FROM 'below-floor' THEN 'under the floor'
                     WHEN s.datasheet_floor_us IS NULL THEN 'no floor known'
                     ELSE 'above the floor' END AS place
            {TIMED} ORDER BY ALL
            """,
            (OneOf("place", ("above the floor", "no floor known")), Between("time_us", low=0)),
            f"{CELL}: {{contestant}} took {{time_us}} us, the datasheet's floor is {{datasheet_floor_us}} us",
        ),
        Rule(
            "race.compared-are-correct",
            "Everyone who enters a comparison passed it in its own run: an error is known and within the "
            "tolerance.",
            f"""
            SELECT w.device, w.cell_id, w.timing_mode, s.contestant, s.relative_error, s.tolerance,
                w.winner IS NOT DISTINCT FROM s.contestant AS wins
            {TIMED} AND s.status IN ('measured', 'partial') ORDER BY ALL
            """,
            (AtLeast("tolerance", "relative_error"), Between("relative_error", low=0)),
            f"{CELL}: {{contestant}} has relative error {{relative_error}}, the tolerance is {{tolerance}}",
        ),
        Rule(
            "race.repeatability-known",
            "Everyone who enters a comparison gave the same output again, bitwise or within a tolerance.",
            f"""
            SELECT w.device, w.cell_id, w.timing_mode, s.contestant,
                CASE WHEN contains(s.repeatability, 'no') THEN 'no'
                     WHEN contains(s.repeatability, 'tolerance') THEN 'tolerance'
                     ELSE s.repeatability END AS repeatability
            {TIMED} AND s.status IN ('measured', 'partial') ORDER BY ALL
            """,
            (OneOf("repeatability", ("bitwise", "tolerance")),),
            f"{CELL}: repeatability of {{contestant}} is {{repeatability}}",
        ),
        Rule(
            "race.enough-rounds",
            "Each complete cell has the rounds and the sessions that its policy asks for.",
            """
            SELECT w.device, w.cell_id, w.timing_mode, w.rounds, p.min_rounds, w.sessions, p.min_sessions
            FROM winners w JOIN run_policy p USING (run_id)
            WHERE w.outcome <> 'incomplete'
            ORDER BY ALL
            """,
            (AtLeast("rounds", "min_rounds"), AtLeast("sessions", "min_sessions")),
            f"{CELL}: {{rounds}} of {{min_rounds}} rounds in {{sessions}} of {{min_sessions}} sessions",
            empty="no cell is complete",
        ),
        Rule(
            "race.wins-are-wins",
            "A winner's interval over its nearest rival lies above 1 + the tie band; else nobody wins.",
            """
            SELECT device, cell_id, timing_mode, outcome, winner, runner_up, margin, margin_lo, margin_hi,
                tie_band,
                CASE WHEN outcome = 'win'
                     THEN winner IS NOT NULL AND coalesce(margin_lo > 1 + tie_band, FALSE)
                     ELSE winner IS NULL END AS by_the_rules
            FROM winners ORDER BY ALL
            """,
            (OneOf("by_the_rules", (True,)),),
            f"{CELL}: {{outcome}} of {{winner}} over {{runner_up}} with speedup {{margin}} "
            "[{margin_lo}, {margin_hi}], band {tie_band}",
        ),
        Rule(
            "race.refused",
            "Contestants that were refused by their own fault: the outcome stands beside them, and a claim "
            "about all of them fails.",
            """
            SELECT w.device, w.cell_id, w.timing_mode, s.contestant, s.role, s.reason_code, s.detail,
                s.status = 'refused' AND s.fault = 'contestant' AS refused
            FROM winners w JOIN contestant_status s USING (run_id, cell_id, timing_mode)
            ORDER BY ALL
            """,
            (OneOf("refused", (False,)),),
            f"{CELL}: {{contestant}} ({{role}}) is refused, {{reason_code}}: {{detail}}",
            severity=Severity.WARNING,
        ),
        Rule(
            "race.not-throttled",
            "The card ran unthrottled beside every round (no state at all: an interpreter has no card).",
            """
            SELECT w.device, w.cell_id, w.timing_mode, count(d.round) AS rounds,
                count(*) FILTER (WHERE d.throttle_reasons <> '') AS throttled_rounds,
                string_agg(DISTINCT d.throttle_reasons, ', ' ORDER BY d.throttle_reasons)
                    FILTER (WHERE d.throttle_reasons <> '') AS throttle_reasons
            FROM winners w LEFT JOIN device_states d USING (run_id, cell_id, timing_mode)
            GROUP BY ALL ORDER BY ALL
            """,
            (Between("throttled_rounds", high=0),),
            f"{CELL}: {{throttled_rounds}} of {{rounds}} rounds were throttled ({{throttle_reasons}})",
            severity=Severity.WARNING,
        ),
        Rule(
            "race.reference-floor",
            "Times under the floor of the rates that were measured on the device: to be measured again.",
            f"""
            SELECT w.device, w.cell_id, w.timing_mode, s.contestant, s.time_us, s.reference_floor_us,
                coalesce(s.below_reference_floor, FALSE) AS below
            {TIMED} ORDER BY ALL
            """,
            (OneOf("below", (False,)),),
            f"{CELL}: {{contestant}} took {{time_us}} us, the measured floor is {{reference_floor_us}} us",
            severity=Severity.WARNING,
        ),
        Rule(
            "race.measured-once",
            "Cells that were raced more than once: the policy says which run speaks, the others are listed.",
            "SELECT device, cell_id, timing_mode, runs, run_id, run_ids FROM winners ORDER BY ALL",
            (Between("runs", low=1, high=1),),
            f"{CELL} was raced {{runs}} times ({{run_ids}}); run {{run_id}} speaks",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
    tables=("samples", "verdicts", "rosters", "cells"),
)
