"""Claims in documents. The frame comes from the scanner (:mod:`checks.claims`), not from a query of ours."""

from checks.model import OneOf, Rule, Severity, Status, Suite

CLAIMS = Suite(
    "claims",
    "every number and comparison in the documents is what the lake says",
    (
        Rule(
            "claims.hold",
            "Every claim that the documents bind to a query holds, and nothing is left unbound.",
            "SELECT document, line, sentence, kind, query, verdict, reason, judged FROM claims ORDER BY ALL",
            (OneOf("judged", (True,)),),
            "{document}:{line}: {verdict}: {reason} ({sentence})",
            on_empty=Status.UNJUDGED,
            empty="no document was scanned",
        ),
        Rule(
            "claims.waived",
            "Sentences that an inline reason lets through.",
            "SELECT document, line, sentence, reason, verdict FROM claims WHERE verdict <> 'scanned' ORDER BY ALL",
            (OneOf("verdict", ("holds", "quoted", "false", "rejected", "could-not-judge", "unbound")),),
            "{document}:{line}: {verdict}: {reason} ({sentence})",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
)
