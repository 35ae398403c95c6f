"""Claims in documents. The rows are the scanner's (:mod:`checks.claims`): one a claim, one a document."""

from checks.model import OneOf, Rule, Severity, Status, Suite

CLAIMS = Suite(
    "claims",
    "every number and comparison in the documents is what the lake says",
    (
        Rule(
            "claims.hold",
            "Every claim that the documents bind to a query holds, and nothing is left unbound.",
            "SELECT * FROM claims ORDER BY document, line, kind, sentence",
            (OneOf("judged", (True,)),),
            "{document}:{line}: {verdict}: {reason} ({sentence}){hint}",
            empty="no document was scanned: [tool.checks] documents of pyproject.toml matches none",
        ),
        Rule(
            "claims.waived",
            "Sentences that an inline reason lets through.",
            "SELECT *, verdict = 'waived' AS waived FROM claims ORDER BY document, line, kind, sentence",
            (OneOf("waived", (False,)),),
            "{document}:{line}: {sentence} (waived: {query})",
            severity=Severity.WARNING,
            on_empty=Status.HOLDS,
        ),
    ),
)
