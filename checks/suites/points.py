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
            "points.source",
            "Each figure comes from an import on record, of which every record is a row or a named refusal.",
            """
            SELECT
                p.import_id,
                CASE
                    WHEN i.import_id IS NULL THEN 'is not on record'
                    WHEN i.records_in <> i.rows_out + i.refused THEN 'lost records'
                    WHEN coalesce(i.refused, 0) > 0 AND i.refusals_json IS NULL THEN 'refused records without a name'
                    ELSE 'is on record'
                END AS source
            FROM (SELECT DISTINCT import_id FROM points) p
            LEFT JOIN imports i ON i.import_id = p.import_id
            ORDER BY ALL
            """,
            (OneOf("source", ("is on record",)),),
            "import {import_id} {source}",
        ),
        Rule(
            "points.explained",
            "A figure without a value, or one that is refused, says why.",
            """
            SELECT
                import_id,
                row,
                contestant,
                CASE WHEN reason IS NULL AND (value IS NULL OR status = 'refused') THEN 'none' ELSE 'given' END AS reason
            FROM points
            ORDER BY import_id, row
            """,
            (OneOf("reason", ("given",)),),
            "figure {row} of {import_id} ({contestant}) has no value and no reason",
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
