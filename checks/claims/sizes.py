"""Numbers of tokens that a sentence names: lists, ranges, 'up to', 'and more'."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_N = r"(\d+(?:,\d{3})*)(?![\d.]\d)"
_LIST = r"\d[\d,]*(?:(?:, ?|,? and |,? or | ?/ ?)\d[\d,]*)*"
_UNIT = r"[ -]?tokens?\b(?! ?/| per)"
_MORE = r"(?:more|up|above|beyond|upwards?|larger|greater|higher|bigger|over|on|onwards?)"
_LESS = r"(?:less|fewer|below|down|smaller|under|lower)"
# An integer without a unit is a number of tokens; what follows says that it is something else.
_SOMETHING_ELSE = (
    r"x|\u00d7|%|percent|us|\u00b5s|ms|ns|s|times|cells?|combinations?|positions?|of|rounds?|sessions?|samples?|experts?|layers?"
    r"|gpus?|runs?|rivals?|engines?|modes?|measured|tok\w*|TB|GB|TFLOP"
)
_BARE = re.compile(
    rf"(?<![\w.,/$#-])(\d+(?:,\d{{3}})*)(\+)?(?![\w%\u00d7]|[.,]\d|[ -]?(?:{_SOMETHING_ELSE})\b|-bit)",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\b(?:larger|bigger|smaller|higher|lower|longer|shorter|other|further|remaining|neighbou?ring)"
    r" (?:batch(?:es)?|batch sizes?|sizes?|token counts?|inputs?|numbers? of tokens|shapes?)\b",
    re.IGNORECASE,
)


def token_counts(text: str, measured: Sequence[int], *, bare: bool) -> frozenset[str]:
    """Return the numbers of tokens that ``text`` names, as text.

    Args:
        text: A clause, its figures blanked.
        measured: Numbers of tokens that the lake has; a range takes those inside it. An end of a range that was not
            measured is named all the same.
        bare: Whether an integer without a unit ('at 128') is a number of tokens.
    """
    known = sorted(measured)
    low, high = (known[0], known[-1]) if known else (1, 10**9)
    found: set[int] = set()
    rest = text

    def take(pattern: str, choose: Callable[[re.Match[str]], Sequence[int]]) -> None:
        nonlocal rest
        for match in re.finditer(pattern, rest, re.IGNORECASE):
            found.update(choose(match))
        rest = re.sub(pattern, lambda m: " " * len(m[0]), rest, flags=re.IGNORECASE)

    def number(digits: str) -> int:
        return int(digits.replace(",", ""))

    def within(first: int, last: int) -> list[int]:
        inside = [t for t in known if first <= t <= last]
        return [*inside, *(end for end in (first, last) if end not in inside and end < 10**9)]

    def beyond(match: re.Match[str]) -> list[int]:
        return [t for t in known if t > number(match[1])] or [number(match[1])]

    def short_of(match: re.Match[str]) -> list[int]:
        return [t for t in known if t < number(match[1])] or [number(match[1])]

    def listed(match: re.Match[str]) -> list[int]:
        return [number(d) for d in re.findall(r"\d+(?:,\d{3})*(?!\d)", match[1])]

    plural = r"(?: tokens?)?"
    take(
        rf"\b(?:from |between )?{_N}{plural} ?(?:to|through|-|\u2013|\u2014) ?{_N}{_UNIT}",
        lambda m: within(number(m[1]), number(m[2])),
    )
    take(rf"\bbetween {_N}{plural} and {_N}{_UNIT}", lambda m: within(number(m[1]), number(m[2])))
    take(rf"\b{_N}(?:{_UNIT})?,? (?:and|or) {_MORE}\b(?: tokens)?", lambda m: within(number(m[1]), high))
    take(
        rf"\b{_N}{_UNIT} (?:up|upwards?|onwards?|plus|on(?= *(?:[.,;]|\Z)))(?!\w)",
        lambda m: within(number(m[1]), high),
    )
    take(rf"\b{_N}\+(?:{_UNIT})?", lambda m: within(number(m[1]), high))
    take(rf"\b{_N}(?:{_UNIT})?,? (?:and|or) {_LESS}\b(?: tokens)?", lambda m: within(low, number(m[1])))
    take(
        rf"(?:\b(?:up to|at most|no more than|not more than)|\u2264|<=) ?{_N}{_UNIT}",
        lambda m: within(low, number(m[1])),
    )
    take(
        rf"(?:\b(?:from|at least|starting (?:at|from|with)|no fewer than)|\u2265|>=) ?{_N}{_UNIT}(?: {_MORE})?",
        lambda m: within(number(m[1]), high),
    )
    take(rf"(?:\b(?:above|over|more than|beyond|past|larger than|greater than)|>) ?{_N}{_UNIT}", beyond)
    take(rf"(?:\b(?:below|under|fewer than|less than|smaller than)|<) ?{_N}{_UNIT}", short_of)
    take(rf"(?<![\w.])({_LIST}){_UNIT}", listed)
    take(rf"\b(?:M|batch(?: size)?|tokens?)(?: ?= ?| of |: ?| )({_LIST})(?![\w.])", listed)
    take(r"\b(?:a |one |single )(?:single )?token\b(?! count)", lambda _: [1])
    if bare:
        for match in _BARE.finditer(rest):
            found.update(within(number(match[1]), high) if match[2] else [number(match[1])])
    return frozenset(map(str, found))


def vague(text: str) -> str | None:
    """Return sizes that are named without a number ('larger batches')."""
    match = _VAGUE.search(text)
    return match[0] if match else None
