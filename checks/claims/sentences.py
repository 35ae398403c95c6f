"""The words for a typed call: one plain sentence for each macro, from its arguments and what the lake gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from checks.claims import scope
from checks.claims.judge import Judge
from checks.claims.macros import MACROS, Call
from checks.claims.printed import decimal_of
from checks.claims.sandbox import Row
from checks.errors import ChecksError
from checks.model import INTERPRETER

_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "humming": "Humming"}


class NewClaimError(ChecksError):
    """No true sentence can be written from the query."""


def sentences(judge: Judge, call: Call) -> Iterator[str]:
    """Yield sentences that say what ``call`` gives, with the comment that binds them, the plainest first.

    Raises:
        NewClaimError: the lake gives no value, or there is nothing to say about it.
    """
    write = _WRITERS.get(call.name)
    if write is None:
        raise NewClaimError(
            f"{call.name} has no sentence of its own: write one and bind it with {_comment(call)}"
        )
    yield write(judge, call)
    if call.name in _UNDECIDED:
        yield _UNDECIDED[call.name](judge, call)


def devices(judge: Judge, call: Call) -> frozenset[str]:
    """Return the devices whose measurements a race macro is about; of another macro none."""
    return scope.covers(call, judge.lexicon)["device"] if "cells" in call.macro.parameters else frozenset()


# ---- comparisons ---------------------------------------------------------------------------------------------------


def _comparison(judge: Judge, call: Call) -> str:
    verb = {"wins": "wins", "beats": "beats", "ties": "is level with"}[call.name]
    rivals = " and ".join(_name(r) for r in call.names("opponent") or call.names("rivals"))
    over = f" over {rivals}" if call.name == "wins" and rivals else f" {rivals}" if rivals else ""
    return f"{_first(call)} {verb}{over}{_where(judge, call)}.{_comment(call)}"


def _speedup(judge: Judge, call: Call) -> str:
    value = _number(judge, call)
    word = "faster" if value > 1 else "slower"
    shown = _digits(value if value > 1 else 1 / value)
    return f"{_first(call)} is {shown}x{_comment(call)} {word} than {_second(call)}{_where(judge, call)}."


def _ratio(judge: Judge, call: Call) -> str:
    shown = _digits(_number(judge, call))
    return f"{_first(call)} takes {shown}x{_comment(call)} as long as {_second(call)}{_where(judge, call)}."


def _percent(judge: Judge, call: Call) -> str:
    value = _number(judge, call)
    word = "faster" if value > 0 else "slower"
    shown = _digits(value if value > 0 else 100 / (1 + value / 100) - 100)
    return f"{_first(call)} is {shown}%{_comment(call)} {word} than {_second(call)}{_where(judge, call)}."


def _as_fast(judge: Judge, call: Call) -> str:
    """Of two that are too close to call: nobody is faster."""
    shown = f"{_shown(judge, call)}x{_comment(call)}"
    return f"{_first(call)} runs {shown} as fast as {_second(call)}{_where(judge, call)}."


def _speedup_range(judge: Judge, call: Call) -> str:
    low, high = _ends(judge, call)
    if low <= 1 <= high:
        return _as_fast(judge, call)
    word, ends = ("faster", (low, high)) if low > 1 else ("slower", (1 / high, 1 / low))
    shown = f"{_digits(ends[0])} to {_digits(ends[1])}x{_comment(call)} {word}"
    return f"{_first(call)} is {shown} than {_second(call)}{_where(judge, call)}."


def _percent_range(judge: Judge, call: Call) -> str:
    low, high = _ends(judge, call)
    if low <= 0 <= high:
        raise NewClaimError(
            f"neither is faster throughout ({_digits(low)}% to {_digits(high)}%): use speedup_range, or name cells"
        )
    word = "faster" if low > 0 else "slower"
    if low < 0:
        low, high = (100 / (1 + v / 100) - 100 for v in (high, low))
    shown = f"{_digits(low)} to {_digits(high)}%{_comment(call)}"
    return f"{_first(call)} is {shown} {word} than {_second(call)}{_where(judge, call)}."


def _geomean(judge: Judge, call: Call) -> str:
    shown = f"{_digits(_number(judge, call))}x{_comment(call)}"
    return f"The speedup of {_first(call)} over {_second(call)} is {shown} in the geometric mean{_where(judge, call)}."


# ---- times, distances to the floor, counts -------------------------------------------------------------------------


def _time(judge: Judge, call: Call) -> str:
    return f"{_first(call)} takes {_shown(judge, call)} us{_comment(call)}{_where(judge, call)}."


def _floor(judge: Judge, call: Call) -> str:
    place = _where(judge, call)
    return f"{_first(call)} is at {_shown(judge, call)}x{_comment(call)} its floor{place}."


def _cells(judge: Judge, call: Call) -> str:
    return f"The lake has {_number(judge, call)}{_comment(call)} measured cells{_where(judge, call)}."


def _wins_count(judge: Judge, call: Call) -> str:
    return f"{_first(call)} wins {_of_all(judge, call)} cells{_where(judge, call)}."


def _beats_count(judge: Judge, call: Call) -> str:
    return f"{_first(call)} beats {_second(call)} in {_of_all(judge, call)} cells{_where(judge, call)}."


def _of_all(judge: Judge, call: Call) -> str:
    """'12 of 42', both bound."""
    all_of = Call("cells", {k: v for k, v in call.arguments.items() if k in MACROS["cells"].parameters})
    return f"{_number(judge, call)}{_comment(call)} of {_number(judge, all_of)}{_comment(all_of)}"


# ---- the gate, decode inside a model, served engines ---------------------------------------------------------------


def _agreement(judge: Judge, call: Call) -> str:
    chosen = call.get("configuration") or ""
    everyone = chosen == "*"
    who = "Every configuration" if everyone else _configurations(judge, call)
    verb = "agrees" if everyone or "," not in chosen else "agree"
    shown = f"{_shown(judge, call)}%{_comment(call)}"
    return f"{who} {verb} with the stock model at {shown} of the positions{_place(call)}."


def _positions(judge: Judge, call: Call) -> str:
    shown = f"{_number(judge, call)}{_comment(call)}"
    who = _configurations(judge, call)
    return f"{who} was compared with the stock model at {shown} positions{_place(call)}."


def _configurations(judge: Judge, call: Call) -> str:
    return " and ".join(judge.lexicon.configurations_of(call.get("configuration") or "")) or "Nobody"


def _decode_rate(judge: Judge, call: Call) -> str:
    return f"Inside the model {_first(call)} decodes {_shown(judge, call)} tokens/s{_comment(call)}{_place(call)}."


def _decode_comparison(_: Judge, call: Call) -> str:
    return (
        f"Inside the model {_first(call)} decodes faster than {_second(call)}{_place(call)}.{_comment(call)}"
    )


def _decode_speedup(judge: Judge, call: Call) -> str:
    value = _number(judge, call)
    word, shown = ("faster", value) if value > 1 else ("slower", 1 / value)
    ratio = f"{_digits(shown)}x{_comment(call)} {word}"
    return f"Inside the model {_first(call)} decodes {ratio} than {_second(call)}{_place(call)}."


def _served_rate(judge: Judge, call: Call) -> str:
    return f"{_first(call)} serves {_shown(judge, call)} tokens/s{_comment(call)}{_load(call)}."


def _first_token(judge: Judge, call: Call) -> str:
    shown = f"{_shown(judge, call)} ms{_comment(call)}"
    return f"The time to first token of {_first(call)} is {shown}{_load(call)}."


def _cost(judge: Judge, call: Call) -> str:
    shown = f"{_shown(judge, call)} USD{_comment(call)}"
    return f"{_first(call)} costs {shown} per million output tokens{_load(call)}."


def _served_comparison(_: Judge, call: Call) -> str:
    return f"{_first(call)} is ahead of {_second(call)} {_in_what(call)}{_load(call)}.{_comment(call)}"


def _served_speedup(judge: Judge, call: Call) -> str:
    value = _number(judge, call)
    ahead, behind = (_first(call), _second(call)) if value > 1 else (_second(call), _first(call))
    ratio = f"{_digits(value if value > 1 else 1 / value)}x{_comment(call)}"
    return f"{ahead} is {ratio} ahead of {behind} {_in_what(call)}{_load(call)}."


def _in_what(call: Call) -> str:
    named = {"output_tokens_per_s": "in throughput", "ttft_p50_ms": "in time to first token"}
    metric = call.get("metric_name") or ""
    if metric not in named:
        raise NewClaimError(f"there are words for {' and '.join(named)}, none for {metric}")
    return named[metric]


def _load(call: Call) -> str:
    return f" at concurrency {call.get('concurrency')}{_place(call)}"


def _place(call: Call) -> str:
    """The model and the device that the call names."""
    on = (("for", "model_name"), ("on", "device_name"))
    return "".join(f" {word} {call.get(parameter)}" for word, parameter in on if call.get(parameter))


_WRITERS: dict[str, Callable[[Judge, Call], str]] = {
    "wins": _comparison,
    "beats": _comparison,
    "ties": _comparison,
    "speedup": _speedup,
    "ratio": _ratio,
    "percent_faster": _percent,
    "speedup_range": _speedup_range,
    "percent_faster_range": _percent_range,
    "geomean_speedup": _geomean,
    "time_us": _time,
    "time_range_us": _time,
    "x_floor": _floor,
    "x_floor_range": _floor,
    "cells": _cells,
    "wins_count": _wins_count,
    "beats_count": _beats_count,
    "agreement": _agreement,
    "agreement_range": _agreement,
    "positions": _positions,
    "decode_tokens_per_second": _decode_rate,
    "decode_speedup": _decode_speedup,
    "decode_beats": _decode_comparison,
    "tokens_per_second": _served_rate,
    "ttft_ms": _first_token,
    "cost_per_m_output_tokens": _cost,
    "serving_speedup": _served_speedup,
    "serving_beats": _served_comparison,
}

# For a difference that the noise of the race does not decide.
_UNDECIDED = {"speedup": _as_fast, "speedup_range": _as_fast}


# ---- values and words ----------------------------------------------------------------------------------------------


def _shown(judge: Judge, call: Call) -> str:
    """The value in digits; of a range both ends."""
    if not call.macro.ranged:
        return _digits(_number(judge, call))
    low, high = _ends(judge, call)
    return f"{_digits(low)} to {_digits(high)}"


def _number(judge: Judge, call: Call) -> Decimal:
    rows = judge.sandbox.ask(call.sql()).rows
    value = decimal_of(rows[0][0]) if rows else None
    if value is None:
        raise NewClaimError(f"the lake gives no number: {_why(judge, call, rows)}")
    return value


def _ends(judge: Judge, call: Call) -> tuple[Decimal, Decimal]:
    whole = Call(call.name, call.arguments)
    rows = judge.sandbox.ask(whole.sql()).rows
    value = rows[0][0] if rows else None
    low, high = (decimal_of(value[end]) for end in ("low", "high")) if value else (None, None)
    if low is None or high is None:
        raise NewClaimError(f"the lake gives no range: {_why(judge, call, rows)}")
    if call.part:
        raise NewClaimError(f"leave .{call.part} out: the sentence says both ends")
    return low, high


def _why(judge: Judge, call: Call, rows: tuple[Row, ...]) -> str:
    return f"{judge.evidence.unknown(call, rows).reason}{judge.evidence.misspelt(call.everybody)}"


def _comment(call: Call) -> str:
    return f"<!-- claim: {call.sql()} -->" if call.macro.unit == "bool" else f"<!-- = {call.sql()} -->"


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
            said = phrase.format(" and ".join(filter(None, [", ".join(values[:-1]), values[-1]])))
            parts.append("at 1 token" if said == "at 1 tokens" else said)
    # A card that the call names is named in the sentence too: it then holds beside another card's race as well.
    # The interpreter is named wherever it is meant: nobody shall take its times for a card's.
    if len(judge.lexicon.all_of("device")) > 1 or call.get("device_name") or device == INTERPRETER:
        parts.append(f"on {device}")
    if covered["workload"] != judge.lexicon.all_of("workload", device):
        parts.append("for " + " and ".join(sorted(covered["workload"])))
    return " " + ", ".join(parts) if parts else ""


def _first(call: Call) -> str:
    return _name(call.get("entrant"))


def _second(call: Call) -> str:
    return _name(call.get("opponent"))


def _name(contestant: str | None) -> str:
    return _NAMES.get(contestant or "", contestant or "")


def _digits(value: Decimal) -> str:
    """Three significant digits, or all before the point."""
    places = max(0, 2 - value.adjusted())
    return f"{value:.{places}f}"
