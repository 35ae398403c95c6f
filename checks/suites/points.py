"""Figures that were not measured here: they may be compared, they can never win."""

from checks.model import OneOf, Rule, Suite

POINTS = Suite(
    "points",
    "imported and published figures say what they are",
    (
        Rule(
            "points.evidence",
            "Each figure is marked imported or published, never measured.",
            "SELECT import_id, row, contestant, evidence FROM points ORDER BY import_id, row",
            (OneOf("evidence", ("imported", "published")),),
            "figure {row} of {import_id} ({contestant}) calls itself {evidence}",
        ),
        Rule(
            "points.never-win",
            "No comparison of such figures is called a win.",
            "SELECT evidence, cell_key, metric, contestant, rival, outcome FROM points_pairs ORDER BY ALL",
            (
                OneOf(
                    "outcome",
                    (
                        "faster (point figures)",
                        "smaller (point figures)",
                        "tie",
                        "sole entrant",
                        "unverified",
                    ),
                ),
            ),
            "{evidence} {metric} of {contestant} against {rival} in {cell_key} is called {outcome}",
        ),
    ),
    tables=("points",),
)
