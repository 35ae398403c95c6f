"""Write a bound sentence from a macro's arguments: the words follow from the query, so they fit it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from checks.claims import scope
from checks.claims.judge import Judge
from checks.claims.lexicon import Lexicon
from checks.claims.macros import MACROS, Call, MalformedCallError, parse_call, signature
from checks.claims.model import Verdict
from checks.claims.printed import decimal_of
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError, Sandbox
from checks.claims.scan import Scanner
from checks.errors import ChecksError

_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "humming": "Humming"}
_UNITS = {"x": "x", "us": " us", "%": "%", "cells": "", "tokens/s": " tokens/s", "ms": " ms", "positions": ""}


class NewClaimError(ChecksError):
    """No true sentence can be written from the query."""


def new(query: str, db: Path) -> str:
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
        sentence = _write(judge, call)
        for claim in Scanner(judge).scan("new", sentence):
            if claim.verdict is not Verdict.HOLDS:
                raise NewClaimError(f"'{query}' gives no true sentence: {claim.reason}")
    except (MalformedCallError, QueryRefusedError, QueryBrokeError) as error:
        raise NewClaimError(str(error)) from None
    finally:
        sandbox.close()
    return sentence


def _write(judge: Judge, call: Call) -> str:
    value = judge.sandbox.ask(call.sql()).rows[0][0]
    comment = f"<!-- claim: {call.sql()} -->" if call.macro.unit == "bool" else f"<!-- = {call.sql()} -->"
    where = _where(judge, call)
    if call.name in {"wins", "beats", "ties"}:
        verb = {"wins": "wins", "beats": "beats", "ties": "is level with"}[call.name]
        rivals = " and ".join(_name(r) for r in call.names("opponent") or call.names("rivals"))
        over = f" over {rivals}" if call.name == "wins" and rivals else f" {rivals}" if rivals else ""
        return f"{_name(call.get('entrant'))} {verb}{over}{where}.{comment}"
    exact = decimal_of(value)
    if exact is None:
        raise NewClaimError(
            f"the lake gives no single number for {signature(call.name)} with these arguments"
        )
    if call.name == "speedup":
        ahead, behind = call.get("entrant"), call.get("opponent")
        word = "faster" if exact > 1 else "slower"
        shown = _digits(exact if exact > 1 else 1 / exact)
        return f"{_name(ahead)} is {shown}x{comment} {word} than {_name(behind)}{where}."
    if call.name == "time_us":
        return f"{_name(call.get('entrant'))} takes {_digits(exact)} us{comment}{where}."
    if call.name == "wins_count":
        return f"{_name(call.get('entrant'))} wins {exact}{comment} cells{where}."
    if call.name == "agreement":
        return f"{call.get('configuration')} agrees with the stock model at {_digits(exact)}%{comment} of positions."
    raise NewClaimError(
        f"there is no sentence for {call.name} yet: print {_digits(exact)}{_UNITS.get(call.macro.unit, '')}{comment}"
    )


def _where(judge: Judge, call: Call) -> str:
    """Name every dimension of which the query covers a part."""
    if not scope.selected(call, judge.lexicon):
        return ""
    covered = scope.covers(call, judge.lexicon)
    (device,) = covered["device"] or {""}
    parts = []
    for dimension, phrase in (
        ("tokens", "at {} tokens"),
        ("precision", "in {}"),
        ("routing", "with {} routing"),
        ("timing_mode", "in {} mode"),
    ):
        if covered[dimension] != judge.lexicon.all_of(dimension, device):
            values = sorted(covered[dimension], key=lambda v: (len(v), v))
            parts.append(phrase.format(" and ".join(filter(None, [", ".join(values[:-1]), values[-1]]))))
    # A card that the call names is named in the sentence too: it then holds beside another card's race as well.
    if len(judge.lexicon.all_of("device")) > 1 or call.get("device_name"):
        parts.append(f"on {device}")
    if covered["workload"] != judge.lexicon.all_of("workload", device):
        parts.append("for " + " and ".join(sorted(covered["workload"])))
    return " " + ", ".join(parts) if parts else ""


def _name(contestant: str | None) -> str:
    return _NAMES.get(contestant or "", contestant or "")


def _digits(value: Decimal) -> str:
    """Three significant digits, or all before the point."""
    places = max(0, 2 - value.adjusted())
    return f"{value:.{places}f}"
