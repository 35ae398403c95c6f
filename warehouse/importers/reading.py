"""A stream of JSON values, as benchmark clients leave it behind.

Several values may stand in one file, one a line or not, with a newline before, after or between them; bare
``NaN`` and ``Infinity`` are values; a kill leaves the last one cut short; people write headings between the
lines. Nothing is dropped: what is no value is an :class:`Item` with its problem, line and byte offset, and
reading goes on at the next line that begins with a bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from warehouse.importers.encoding import as_utf8

_OPENING = re.compile(r"^[{\[]", re.MULTILINE)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # escaped; half of a pair is no text
_SPACE = re.compile(r"[\s\ufeff]*")
_MOST_PROBLEMS = 1000  # a file with more is no result file; the rest of it is one problem
_SHOWN = 60
_DEEPEST = 64  # levels; whoever handles a value may recurse into it
_TOO_DEEP = "nested too deep to be a result"
_CONTAINERS = frozenset({dict, list})


@dataclass(frozen=True, slots=True)
class Item:
    """A value of the stream (an element of it, where the value is a list), or a stretch that is no value.

    Attributes:
        place: for people: ``line 4 (byte 812)``, ``line 1 (byte 0), item 3``.
        value: the parsed value; None where there is a problem or a heading.
        problem: why the stretch is no value; None where it is one.
        heading: a line of plain text between values.
    """

    place: str
    value: Any = None
    problem: str | None = None
    heading: str | None = None


def read_items(data: bytes) -> list[Item]:
    """Return the values of ``data`` in order, and what is none."""
    data = as_utf8(data)
    whole = _fast(data)
    if whole is not _FAILED:
        return list(_flat(whole, "line 1 (byte 0)"))
    return list(_scan(data))


class _Failed:
    """No value."""


_FAILED = _Failed()


def _fast(data: bytes) -> Any:
    """Parse one value with the quick parser; _FAILED where that cannot vouch for it (see :func:`_vouched`).

    It needs the least memory of the quick ones: it builds no tree of its own beside the Python values.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return _FAILED
    return value if _vouched(data, value) else _FAILED


def _vouched(data: bytes, value: Any) -> bool:
    """Whether no key stands twice in an object, of which the quick parser keeps the last, and nothing is too deep.

    Where as many colons follow a quotation mark as there are keys, none stands twice. Otherwise the slow parser looks.
    """
    keys, depth = _shape(value)
    return depth <= _DEEPEST and data.count(b'":') - data.count(b'\\":') == keys


def _shape(value: Any) -> tuple[int, int]:
    """Number of keys in a value, and how deep it is nested; without recursion."""
    keys, deepest, waiting = 0, 0, [(value, 1)]
    while waiting:
        here, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(here, dict):
            keys += len(here)
            here = list(here.values())
        if isinstance(here, list) and not _CONTAINERS.isdisjoint(map(type, here)):
            waiting.extend((inner, depth + 1) for inner in here if isinstance(inner, dict | list))
    return keys, deepest


class _Decoder:
    """The slow parser: takes NaN and Infinity, and notices a key that stands twice with different values."""

    def __init__(self) -> None:
        self._twice: list[str] = []
        self._json = json.JSONDecoder(object_pairs_hook=self._object)

    def value_at(self, text: str, start: int) -> tuple[Any, int, str | None]:
        """Return the value that begins at ``start``, its end, and what is wrong with it.

        Raises:
            ValueError: no value begins there.
            RecursionError: it is nested too deep.
        """
        self._twice.clear()
        value, end = self._json.raw_decode(text, start)
        if self._twice:
            return None, end, f"the key '{self._twice[0][:_SHOWN]}' stands twice with different values"
        if _shape(value)[1] > _DEEPEST:
            return None, end, _TOO_DEEP
        try:
            if not text.isascii():
                text[start:end].encode()
            if _SURROGATE.search(text, start, end):
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return None, end, "text that is not Unicode"
        return value, end, None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made and repr(made[key]) != repr(value):
                self._twice.append(key)
            made[key] = value
        return made


class _Places:
    """Line and byte offset of places in a text that are asked for in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at, self._line, self._offset = 0, 1, 0

    def __call__(self, position: int) -> tuple[int, int]:
        between = self._text[self._at : position]
        self._line += between.count("\n")
        self._offset += len(between.encode("utf-8", "surrogateescape"))
        self._at = position
        return self._line, self._offset


def _scan(data: bytes) -> Iterator[Item]:
    """Walk through several values, or one that the quick parser does not take."""
    text = data.decode("utf-8", "surrogateescape")
    places, decoder = _Places(text), _Decoder()
    position, problems = 0, 0
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space else position
        if position == len(text):
            return
        line, offset = places(position)
        place = f"line {line} (byte {offset})"
        rest = text.find("\n", position)
        end_of_line = rest if rest >= 0 else len(text)
        if problems == _MOST_PROBLEMS:
            yield Item(
                place, line, problem=f"the rest of the file is not read after {problems} unreadable places"
            )
            return
        if text[position] not in "{[":
            yield _heading(text[position:end_of_line].rstrip(), place)
            position = end_of_line
            continue
        value = _fast(text[position:end_of_line].encode("utf-8", "surrogateescape"))
        if value is not _FAILED:
            yield from _flat(value, place)
            position = end_of_line
            continue
        try:
            value, position, problem = decoder.value_at(text, position)
        except (ValueError, RecursionError) as error:
            problems += 1
            following = _OPENING.search(text, position + 1)
            end = following.start() if following else len(text)
            yield Item(place, problem=_why(error, text, end))
            position = end
        else:
            if problem:
                yield Item(place, problem=problem)
            else:
                yield from _flat(value, place)


def _heading(text: str, place: str) -> Item:
    try:
        text.encode()
    except UnicodeEncodeError:
        return Item(place, problem="text that is not Unicode")
    return Item(place, heading=text)


def _flat(value: Any, place: str) -> Iterator[Item]:
    """The value, or the elements of a list one by one (vLLM's sweep summary is a list of runs)."""
    if isinstance(value, list):
        for number, element in enumerate(value, start=1):
            yield Item(f"{place}, item {number}", element)
    else:
        yield Item(place, value)


def _why(error: ValueError | RecursionError, text: str, end: int) -> str:
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if not isinstance(error, json.JSONDecodeError):
        return f"not readable as JSON ({str(error).split(';')[0]})"
    what = f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
    cut = not text[error.pos : end].strip() or error.msg.startswith("Unterminated string")
    return f"cut short: {what}" if cut else f"not valid JSON: {what}"
