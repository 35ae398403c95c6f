"""Values of foreign records: numbers that are numbers, and what became of the others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from warehouse.importers.base import RecordError

_LARGEST = 2**63 - 1
_SHOWN = 40


def real(value: Any) -> float | None:
    """Return a finite number as float; None for everything else, texts and truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def count(value: Any) -> int | None:
    """Return a whole number from 0 that fits 64 bits (12.0 is 12); None for everything else."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else real(value)
    if number is None or number != math.floor(number) or not 0 <= number <= _LARGEST:
        return None
    return int(number)


def text(value: Any) -> str | None:
    """Return a text that is not blank, stripped; None for everything else."""
    return value.strip() or None if isinstance(value, str) else None


def shown(value: Any) -> str:
    """A value in a message, cut to a few characters."""
    words = repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."


class Fields:
    """The fields of a record, read by name; it remembers which were read and which had the wrong kind of value.

    Clients merge what a user types (``--metadata KEY=VALUE``) into the same object, always as text, so a text
    where a number belongs is not the client's measurement: the column stays NULL and the reason says so.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.problems: list[str] = []
        self._read: set[str] = set()

    def real(self, *names: str) -> float | None:
        """The first of ``names`` that the record has, as a finite number."""
        value: float | None = self._get(names, real, "number")
        return value

    def positive(self, *names: str) -> float | None:
        """The same, where it is over 0: a time or a rate of 0 is a missing one, and nothing is below."""
        value = self.real(*names)
        if value is not None and value < 0:
            self.problems.append(f"{self._name(names)} is {value:g}, below 0")
        return value if value is not None and value > 0 else None

    def count(self, *names: str) -> int | None:
        """The first of ``names`` that the record has, as a whole number from 0."""
        value: int | None = self._get(names, count, "whole number")
        return value

    def text(self, *names: str) -> str | None:
        """The first of ``names`` that the record has, as text."""
        value: str | None = self._get(names, text, "text")
        return value

    def raw(self, name: str) -> Any:
        """The value of a field as it stands."""
        self._read.add(name)
        return self.record.get(name)

    def list(self, name: str) -> list[Any] | None:
        """A list; None where there is none."""
        value: list[Any] | None = self._get((name,), lambda v: v if isinstance(v, list) else None, "list")
        return value

    def rest(self, leave_out: Iterable[str] = ()) -> dict[str, Any]:
        """The fields that were not read, and those whose value was not of the kind that belongs there."""
        without = self._read.union(leave_out)
        return {name: value for name, value in self.record.items() if name not in without}

    def _get(self, names: tuple[str, ...], convert: Any, kind: str) -> Any:
        name = self._name(names)
        if name not in self.record:
            return None
        found = self.record[name]
        value = convert(found)
        if _not_a_number(found):
            self.problems.append(f"{name} is {found}")
        if value is None and not (found is None or found == "" or _not_a_number(found)):
            self.problems.append(f"{name} is {shown(found)}, not a {kind}")
        else:
            self._read.add(name)
        return value

    def _name(self, names: tuple[str, ...]) -> str:
        return next((name for name in names if name in self.record), names[0])


def canonical(value: Any) -> bytes:
    """Return a JSON value as canonical bytes: keys sorted, no blanks.

    Raises:
        RecordError: it is nested too deep, or holds text that is no Unicode.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except RecursionError:
        raise RecordError("nested too deep to be a result") from None
    except ValueError:  # UnicodeEncodeError, and an integer of more digits than Python prints
        raise RecordError("holds text that is not Unicode, or a number without end") from None


def compact(value: Mapping[str, Any]) -> str | None:
    """Return a JSON text for an ``..._json`` column, without NaN and infinities (they become texts); None if empty.

    Raises:
        RecordError: as :func:`canonical`.
    """
    return canonical(_finite(value)).decode() if value else None


def identity(format_name: str, record: Mapping[str, Any], bulk: Iterable[str] = ()) -> str:
    """Return the identity of a record, from its content: equal records are one, wherever they stand.

    Args:
        format_name: first part of the identity.
        record: the fields that make the record.
        bulk: fields that hold long lists; they are hashed one by one, so that no second copy is made of all.

    Raises:
        RecordError: as :func:`canonical`.
    """
    digest = hashlib.sha256()
    long = [name for name in sorted(bulk) if name in record]
    digest.update(canonical({name: value for name, value in record.items() if name not in long}))
    for name in long:
        digest.update(b"\0" + name.encode() + b"\0")
        for element in record[name] if isinstance(record[name], list) else [record[name]]:
            digest.update(_quick(element) + b",")
    return f"{format_name}:{digest.hexdigest()[:32]}"


def _quick(value: Any) -> bytes:
    """Canonical bytes by the quick writer, which takes no NaN (it writes null) and no integer over 64 bits."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeEncodeError):
        return canonical(value)


def _finite(value: Any) -> Any:
    try:
        if isinstance(value, dict):
            return {key: _finite(v) for key, v in value.items()}
        if isinstance(value, list):
            return [_finite(v) for v in value]
    except RecursionError:
        raise RecordError("nested too deep to be a result") from None
    return repr(value) if _not_a_number(value) else value


def _not_a_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
