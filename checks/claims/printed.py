"""Numbers as they are printed: digits, unit, and the interval of values that they may stand for.

A printed number stands for the values that round to it: 1.35 means [1.345, 1.355), 1200 means [1199.5, 1200.5).
All of it is decided on decimal strings; a float would put 1.345 on the wrong side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

# Canonical unit <- how it is written. Longer spellings first, so that "ms" is not read as "m".
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (
        "tokens/s",
        r"(?:output[ ]|generated[ ]|decode[ ])?(?:tokens?|tok)(?:[ ]?/[ ]?s(?:ec(?:ond)?)?|[ ](?:per|an?|each|every)[ ]sec(?:ond)?)|t/s|tps",
    ),
    (
        "tokens/min",
        r"(?:[a-z]+[ ])?(?:tokens?|tok)(?:[ ]?/[ ]?min(?:ute)?|[ ](?:per|an?|each|every)[ ]min(?:ute)?)",
    ),
    (
        "tokens/h",
        r"(?:[a-z]+[ ])?(?:tokens?|tok)(?:[ ]?/[ ]?(?:h(?:our)?|day)|[ ](?:per|an?|each|every)[ ](?:hour|day))",
    ),
    ("TB/s", r"TB(?:/s|ps|[ ]per[ ]second)"),
    ("GB/s", r"GB(?:/s|ps|[ ]per[ ]second)"),
    ("MB/s", r"MB(?:/s|ps|[ ]per[ ]second)"),
    ("TiB/s", r"TiB/s"),
    ("GiB/s", r"GiB/s"),
    ("PFLOP/s", r"PFLOP(?:/?s|S)"),
    ("TFLOP/s", r"TFLOP(?:/?s|S)?|T(?:ERA)?FLOPS?|TOP(?:/?s|S)"),
    ("GFLOP/s", r"GFLOP(?:/?s|S)?|GOP(?:/?s|S)"),
    ("requests/s", r"req(?:uests?)?(?:/s|[ ]per[ ]second)"),
    ("ns", r"ns|nanosec(?:ond)?s?"),
    ("us", r"us|[\u00b5\u03bc]s|usecs?|microsec(?:ond)?s?"),
    ("ms", r"ms|msecs?|millisec(?:ond)?s?"),
    ("s", r"s|secs?|seconds?"),
    ("%", r"%|percent(?:age[ ]points?)?|per[ ]cent|pct|pp"),
    ("x", r"[x\u00d7](?![ ]?\d)|times(?![ ](?:in|over[ ]\d))|-?fold"),
    ("USD", r"USD|US[ ]?dollars?|dollars?"),
    ("cents", r"(?:US[ ]?)?cents?|\u00a2"),
    ("other currency", r"(?:EUR|euros?|\u20ac|GBP|\u00a3|yen|\u00a5)(?:/\w+)?"),
    ("logits", r"logits?"),
    ("cells", r"(?:(?!(?:every|each|an?|the|in|of)\b)[A-Za-z]\w*[ ]){0,2}?(?:cells?|combinations?)"),
    ("positions", r"(?:[A-Za-z]\w*[ ])?positions?"),
)
# Letters whose case carries meaning are kept; words are matched in any case.
_UNIT = "|".join(f"(?P<u{i}>{spelling})" for i, (_, spelling) in enumerate(_SPELLINGS))
_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_SPACE = "[ \u00a0\u202f]"
_BEFORE = r"(?<![\w.,/^:#])(?<!\d[-\u2013])"
_NUMBER = rf"(?P<currency>[$\u20ac\u00a3\u00a5]{_SPACE}?|USD{_SPACE})?(?P<sign>[-\u2212+])?(?P<digits>{_DIGITS})(?P<scale>[kM](?![A-Za-z]))?"
_WITH_UNIT = re.compile(rf"{_BEFORE}{_NUMBER}(?:(?:{_SPACE}|-)?(?:{_UNIT})(?![\w/])|(?!\w))", re.IGNORECASE)
_COUNT_GLUE = re.compile(r" (?:out )?of (?:the )?", re.IGNORECASE)
_RANGE_GLUE = re.compile(rf"{_SPACE}?(?:to|and|through|or|-|\u2013|\u2014){_SPACE}?\Z", re.IGNORECASE)
# What may stand between a number and the comment that binds it: closing marks only.
_CLOSING = re.compile(r"[)\]\"'\u201d\u2019*_]*[ ]?\Z")

_TIME_IN_US = {"ns": Decimal("0.001"), "us": Decimal(1), "ms": Decimal(1000), "s": Decimal(1000000)}


@dataclass(frozen=True)
class Printed:
    """A number in a text: ``value`` and ``step`` (one unit in the last printed place) in ``unit``."""

    value: Decimal
    step: Decimal
    unit: str | None
    start: int
    end: int
    text: str

    @property
    def low(self) -> Decimal:
        """Smallest value that prints so, included."""
        return self.value - self.step / 2

    @property
    def high(self) -> Decimal:
        """Where the next printed number begins, excluded."""
        return self.value + self.step / 2

    def stands_for(self, value: Decimal) -> bool:
        """Whether ``value``, in this number's unit, prints as this number."""
        return self.low <= value < self.high

    def printing(self, value: Decimal) -> str:
        """Return the digits that ``value`` has at this number's precision, in the way this one is written."""
        rounded = (value / self.step + Decimal("0.5")).to_integral_value(rounding="ROUND_FLOOR") * self.step
        places = max(0, -int(self.step.as_tuple().exponent))
        grouped = "," if "," in self.text else ""
        return format(rounded, f"{grouped}.{places}f")


def decimal_of(value: object) -> Decimal | None:
    """Return a query's number as the decimal that it prints as; None for NULL, text, NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value) if Decimal(value).is_finite() else None


def convert(value: Decimal, unit: str, printed: str) -> Decimal | None:
    """Return ``value`` of ``unit`` in the unit ``printed``; only times convert, anything else must be equal."""
    if unit == printed:
        return value
    if unit in _TIME_IN_US and printed in _TIME_IN_US:
        return value * _TIME_IN_US[unit] / _TIME_IN_US[printed]
    return None


def unit_of(text: str) -> str | None:
    """Return the canonical unit that ``text`` is, e.g. 'us' for 'microseconds'."""
    match = re.fullmatch(_UNIT, text.strip(), re.IGNORECASE)
    return _unit(match) if match else None


def header_unit(header: str) -> str | None:
    """Return the unit that a table's header gives its cells: in brackets, or its last word."""
    for candidate in [*re.findall(r"[(\[]([^)\]]+)[)\]]", header), *re.findall(r"(\S+)\s*\Z", header)]:
        unit = unit_of(candidate.strip(",;: "))
        if unit is not None and unit not in {"cells", "positions"}:
            return unit
    return "x" if re.search(r"speed-?up", header, re.IGNORECASE) else None


def numbers(text: str) -> list[Printed]:
    """Return every number of ``text``; in '1.2 to 1.5x' and '3 of 4 cells' the first has the unit of the second."""
    found = list(_numbers(text))
    for i in range(len(found) - 1, 0, -1):
        first, second = found[i - 1], found[i]
        if first.unit is None and second.unit is not None:
            glue = _COUNT_GLUE if second.unit in {"cells", "positions"} else _RANGE_GLUE
            if glue.fullmatch(text[first.end : second.start]):
                found[i - 1] = Printed(
                    first.value, first.step, second.unit, first.start, first.end, first.text
                )
    return found


def number_before(text: str, offset: int) -> list[Printed]:
    """Return the numbers of ``text`` that end where a comment at ``offset`` stands, the last one last.

    The unit may follow the comment ('1.3<!-- ... -->x'). The result has two numbers where a range ends there,
    one for a single number, none where no number stands there or its digits go on after the comment.
    """
    if re.match(r"\d|[.,]\d", text[offset:]):
        return []
    found = numbers(text)
    for i, number in enumerate(found):
        inside = number.start < offset <= number.end and offset >= number.start + len(number.text)
        if inside or (number.end <= offset and _CLOSING.fullmatch(text[number.end : offset])):
            glued = i > 0 and _RANGE_GLUE.fullmatch(text[found[i - 1].end : number.start])
            return found[i - 1 : i + 1] if glued else [number]
    return []


def _numbers(text: str) -> Iterator[Printed]:
    position = 0
    while match := _WITH_UNIT.search(text, position):
        digits = match["digits"].replace(",", "")
        value, exponent = Decimal(digits), len(digits.partition(".")[2])
        step = Decimal(1).scaleb(-exponent)
        if match["scale"]:
            factor = Decimal(1000) if match["scale"] == "k" else Decimal(1000000)
            value, step = value * factor, step * factor
        if match["sign"] in {"-", "\u2212"}:
            value = -value
        currency = (match["currency"] or "").strip()
        unit = ("USD" if currency in {"$", "USD"} else "other currency") if currency else _unit(match)
        yield Printed(value, step, unit, match.start(), match.end(), match["digits"])
        position = match.end()
        # A range glued with a hyphen: the second number must still be seen.
        glue = re.match(r"[-\u2013](?=\d)", text[position:])
        if glue:
            position += glue.end()
            yield from _numbers_at(text, position)
            return


def _numbers_at(text: str, position: int) -> Iterator[Printed]:
    for number in _numbers(text[position:]):
        yield Printed(
            number.value,
            number.step,
            number.unit,
            number.start + position,
            number.end + position,
            number.text,
        )


def _unit(match: re.Match[str]) -> str | None:
    for i, (unit, _) in enumerate(_SPELLINGS):
        if match[f"u{i}"]:
            return unit
    return None
