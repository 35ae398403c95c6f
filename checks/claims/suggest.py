"""What would bind a sentence, or the true statement next to a wrong one. Only what holds is suggested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from checks.claims import scope
from checks.claims.judge import Bound, Judge
from checks.claims.macros import MACROS, Call, MalformedCallError, parse_call
from checks.claims.model import Verdict
from checks.claims.plain import CONCURRENCY
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError
from checks.claims.wording import Relation, comparatives, roles

_ELSEWHERE = "a figure that is not of this lake is marked <!-- quoted: source -->"
_PLAINLY = "say who is ahead of whom and where; `checks new` writes such a sentence, bound, from a query"
# What a printed unit may be a figure of, the most common first.
_OF_UNIT = {
    "x": ("speedup", "ratio", "geomean_speedup", "x_floor", "decode_speedup"),
    "%": ("percent_faster", "agreement"),
    "us": ("time_us",),
    "ms": ("time_us", "ttft_ms"),
    "s": ("time_us", "ttft_ms"),
    "tokens/s": ("decode_tokens_per_second", "tokens_per_second"),
    "cells": ("wins_count", "beats_count", "cells"),
    "positions": ("positions",),
    "USD": ("cost_per_m_output_tokens",),
}


def binding(judge: Judge, unbound: Bound) -> str:
    """Return the comment that would bind an unbound clause, tried against the lake.

    Where none of those that its words suggest would hold: the nearest true statement, else what to do instead.
    """
    number = bool(unbound.printed)
    tried = ""
    for call in _candidates(judge, unbound):
        tried = tried or call.sql()
        outcome = judge.judge(replace(unbound, query=call.sql()), number=number)
        if outcome.verdict is Verdict.HOLDS:
            return f"bind it: <!-- {'=' if number else 'claim:'} {call.sql()} -->"
    return nearest(judge, tried) or (_ELSEWHERE if number else _PLAINLY)


def _candidates(judge: Judge, unbound: Bound) -> Iterator[Call]:
    """Yield the typed calls that a clause's own words name."""
    arguments = _arguments(judge, unbound)
    for name in _macros(judge, unbound):
        macro = MACROS[name]
        given = {p: v for p, v in arguments.items() if p in macro.parameters}
        if all(p in given for p in macro.parameters[: macro.required]):
            yield Call(name, given)


def _macros(judge: Judge, unbound: Bound) -> tuple[str, ...]:
    said = unbound.clause.said
    if unbound.printed:
        return _OF_UNIT.get(unbound.printed[-1].unit or "", ())
    first = next(iter(comparatives(said)), None)
    if first is None:
        return ()
    who = roles(said, first, judge.lexicon)
    if first.relation is Relation.WIN or (who.everyone and not who.objects):
        return ("wins",)
    return ("ties",) if first.relation in {Relation.TIE, Relation.AS_FAST} else ("beats",)


def _arguments(judge: Judge, unbound: Bound) -> dict[str, str]:
    """The arguments that the clause's words give, by parameter."""
    clause, lexicon = unbound.clause, judge.lexicon
    first = next(iter(comparatives(clause.said)), None)
    who = roles(clause.said, first, lexicon)
    ahead, behind = ",".join(who.subjects), ",".join(who.objects)
    if first is not None and (first.relation is Relation.SLOWER) != first.passive:
        ahead, behind = behind, ahead
    says = scope.named(scope.Words(clause.said, clause.around), lexicon)
    cells = "/".join(
        ",".join(sorted(says.get(d, {"*"}), key=lambda v: (len(v), v)))
        for d in ("workload", "precision", "routing", "tokens")
    )
    words = set(re.findall(r"[a-z0-9]+", clause.said.lower()))
    configurations = [
        c for c in lexicon.configurations_of("*") if set(c.lower().split("_")) - {"stock", "vs"} <= words
    ]
    loads = {n for pair in CONCURRENCY.findall(clause.said) for n in pair if n}
    arguments = {
        "entrant": ahead,
        "opponent": behind,
        "cells": cells,
        "mode": _only(says.get("timing_mode")),
        "device_name": _only(says.get("device")),
        "configuration": configurations[0] if len(configurations) == 1 else "",
        "concurrency": _only(loads),
    }
    return {parameter: value for parameter, value in arguments.items() if value}


def _only(values: frozenset[str] | set[str] | None) -> str:
    return next(iter(values)) if values is not None and len(values) == 1 else ""


def nearest(judge: Judge, query: str) -> str:
    """Return what the lake says about the cells of a claim that does not hold; empty where it says nothing."""
    try:
        call = parse_call(query)
        if call is None or "cells" not in call.macro.parameters or call.macro.evidence != "measured":
            return ""
        return _statement(judge, call)
    except (MalformedCallError, QueryBrokeError, QueryRefusedError):
        return ""


def _statement(judge: Judge, call: Call) -> str:
    selected = scope.selected(call, judge.lexicon)
    number = len({c[:4] for c in selected})
    entrant, rival = call.get("entrant"), call.get("opponent")
    if not number or entrant is None:
        return ""
    if rival is not None and "," not in rival:
        won = judge.sandbox.rows(call.sql("beats_count"))[0][0]
        if number > 1 and won is not None:
            return f"nearest true statement: {entrant} beats {rival} in {won} of {number} cells"
        if number == 1 and len(selected) == 1:
            value = judge.sandbox.rows(call.sql("speedup"))[0][0]
            return f"the lake: {entrant} is {value:.3g}x as fast as {rival}" if value is not None else ""
    if call.name.startswith(("time", "x_floor")):
        value = judge.sandbox.rows(call.sql())[0][0]
        return f"the lake: {value}" if value is not None else ""
    won = judge.sandbox.rows(call.sql("wins_count"))[0][0]
    return f"nearest true statement: {entrant} wins {won} of {number} cells" if won is not None else ""
