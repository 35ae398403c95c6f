"""Write a bound sentence from a macro's arguments: the words follow from the query, so they fit it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checks.claims.judge import Judge
from checks.claims.lexicon import Lexicon
from checks.claims.macros import MACROS, Call, MalformedCallError, parse_call
from checks.claims.model import Verdict
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError, Sandbox
from checks.claims.scan import Scanner
from checks.claims.sentences import NewClaimError, devices, sentences
from checks.model import INTERPRETER, INTERPRETER_NOTE


@dataclass(frozen=True)
class NewClaim:
    """A sentence to paste, and what has to be known about it beside (empty: nothing)."""

    sentence: str
    note: str = ""


def new(query: str, db: Path) -> NewClaim:
    """Return a Markdown sentence that ``query``, a typed call, binds and that holds.

    Args:
        query: ``SELECT macro(...)`` or only ``macro(...)``.
        db: The warehouse.

    Raises:
        NewClaimError: the query is no typed call, or the lake does not support it.
    """
    sql = query if query.lstrip().lower().startswith("select") else f"SELECT {query}"
    sandbox = Sandbox(db)
    try:
        judge = Judge(sandbox, Lexicon.of(sandbox.rows))
        call = parse_call(sql)
        if call is None:
            raise NewClaimError(
                f"'{query}' is no call of a typed macro; there are {', '.join(sorted(MACROS))}"
            )
        text = _first_that_holds(judge, call, query)
        note = INTERPRETER_NOTE if INTERPRETER in devices(judge, call) else ""
    except (MalformedCallError, QueryRefusedError, QueryBrokeError) as error:
        raise NewClaimError(str(error)) from None
    finally:
        sandbox.close()
    return NewClaim(text, note)


def _first_that_holds(judge: Judge, call: Call, query: str) -> str:
    reasons: list[str] = []
    for text in sentences(judge, call):
        failed = [c.reason for c in Scanner(judge).scan("new", text) if c.verdict is not Verdict.HOLDS]
        if not failed:
            return text
        reasons += failed
    raise NewClaimError(f"'{query}' gives no true sentence: {reasons[0]}")
