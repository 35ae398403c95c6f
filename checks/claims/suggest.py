"""What would bind a sentence, or the true statement next to a wrong one."""

from __future__ import annotations

from checks.claims import scope
from checks.claims.judge import Judge
from checks.claims.macros import Call, MalformedCallError, parse_call
from checks.claims.reading import Clause
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError
from checks.claims.wording import Relation, comparatives, roles


def binding(judge: Judge, clause: Clause) -> str:
    """Return the comment that would bind an unbound clause, as far as its words say what it is about."""
    found = comparatives(clause.said)
    first = found[0] if found else None
    who = roles(clause.said, first, judge.lexicon)
    said = scope.named(scope.Words(clause.said, clause.around), judge.lexicon)
    cells = "/".join(
        ",".join(sorted(said.get(d, {"*"}), key=lambda v: (len(v), v)))
        for d in ("workload", "precision", "routing", "tokens")
    )
    tail = "".join(
        f", {parameter} := '{next(iter(said[dimension]))}'"
        for dimension, parameter in (("timing_mode", "mode"), ("device", "device_name"))
        if len(said.get(dimension, ())) == 1
    )
    subject = who.subjects[0] if who.subjects else "CONTESTANT"
    rival = ",".join(who.objects) or "RIVAL"
    if first is None:
        return f"bind it: <!-- = SELECT time_us('{subject}', '{cells}'{tail}) -->, or mark it <!-- quoted: source -->"
    if first.relation is Relation.WIN or (who.everyone and not who.objects):
        return f"bind it: <!-- claim: SELECT wins('{subject}', '{cells}'{tail}) -->"
    if (first.relation is Relation.SLOWER) != first.passive:
        subject, rival = rival, subject
    return f"bind it: <!-- claim: SELECT beats('{subject}', '{rival}', '{cells}'{tail}) -->"


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
