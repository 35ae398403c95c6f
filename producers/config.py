"""What a race can be asked for: one table of options, read from the command line and from TOML.

Both go through the same checks; the command line wins. ``PLAN`` options make the race what it is and
are stored with the run; the others are about this machine and this invocation, and stay out of the
lake (paths of a machine are never recorded).
"""

from __future__ import annotations

import argparse
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.errors import UsageError

PRECISIONS = ("bf16", "fp16", "int8_w8a16", "int8_w8a8")
MODES = ("graph", "eager")
_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1  # what the lake's columns and the kernels' row numbers hold


@dataclass(frozen=True)
class Option:
    """One option: how its value is read (str, number or list in; the value or ValueError out)."""

    name: str
    read: Callable[[Any], Any]
    metavar: str
    help: str
    plan: bool = False
    flag: bool = False
    many: bool = False  # every occurrence counts; otherwise the last one


def _items(value: Any) -> list[Any]:
    """A comma list, a list, or a list of comma lists, as one flat list without empty items."""
    found: list[Any] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        found += [part.strip() for part in item.split(",")] if isinstance(item, str) else [item]
    found = [item for item in found if item != ""]
    if not found:
        raise ValueError("is empty")
    doubles = sorted({str(item) for item in found if found.count(item) > 1})
    if doubles:
        raise ValueError(f"names {', '.join(doubles)} twice")
    return found


def _names(value: Any) -> tuple[str, ...]:
    items = _items(value)
    for item in items:
        if not isinstance(item, str):
            raise ValueError(f"has {item!r}, which is no text")  # noqa: TRY004 - all faults are values here
    return tuple(items)


def _one_of(*allowed: str) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        names = _names(value)
        for name in names:
            if name not in allowed:
                raise ValueError(f"has '{name}'; known are {', '.join(allowed)}")
        return names

    return read


def routing_exponent(routing: str) -> float | None:
    """The Zipf exponent of a routing name; None for ``uniform``.

    Raises:
        ValueError: it is neither ``uniform``, ``zipf`` (s = 1) nor ``zipf-S`` with a positive S.
    """
    if routing == "uniform":
        return None
    if routing == "zipf":
        return 1.0
    try:
        s = float(routing.removeprefix("zipf-"))
    except ValueError:
        s = math.nan
    if not routing.startswith("zipf-") or not (0 < s < math.inf):
        raise ValueError(f"has '{routing}'; known are uniform, zipf (s = 1) and zipf-S with S over 0")
    return s


def _routings(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        routing_exponent(name)
    return names


def _whole(least: int, most: int = _INT32_MAX) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError(f"is {value!r}, not a whole number")  # noqa: TRY004 - see _names
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"is {value!r}, not a whole number") from None
        if number < least:
            raise ValueError(f"is {number}; the least is {least}")
        if number > most:
            raise ValueError(f"is {number}; the most is {most}")
        return number

    return read


def _wholes(least: int) -> Callable[[Any], tuple[int, ...]]:
    return lambda value: tuple(_items([_whole(least)(item) for item in _items(value)]))


def _positive(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"is {value!r}, not a number over 0")
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is {value!r}, not true or false")  # noqa: TRY004 - see _names
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value):
        raise ValueError(f"is {value!r}, not a path")
    return Path(value).expanduser()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"is {value!r}, not a text")
    return value


def _pairs(value: Any) -> dict[str, tuple[str, ...]]:
    """``NAME=VALUE`` items, or a TOML table of texts or lists of texts."""
    found: dict[str, tuple[str, ...]] = {}
    if isinstance(value, Mapping):
        return {str(name): _names(text) for name, text in value.items()}
    for item in value if isinstance(value, (list, tuple)) else [value]:
        name, equals, text = str(item).partition("=")
        if not (name and equals and text):
            raise ValueError(f"has '{item}', which is not NAME=VALUE")
        found[name] = (*found.get(name, ()), text)
    return found


def _pair(value: Any) -> dict[str, str]:
    found = _pairs(value)
    for name, texts in found.items():
        if len(texts) != 1:
            raise ValueError(f"names {name} twice")
    return {name: texts[0] for name, texts in found.items()}


OPTIONS = (
    Option("workload", _names, "NAME", "MoE shape (repeat or comma list)", plan=True, many=True),
    Option("precision", _one_of(*PRECISIONS), "NAME", ", ".join(PRECISIONS), plan=True, many=True),
    Option("routing", _routings, "NAME", "uniform, zipf, zipf-S", plan=True, many=True),
    Option("tokens", _wholes(1), "N", "tokens of a cell, e.g. 1,4,16", plan=True, many=True),
    Option("mode", _one_of(*MODES), "NAME", "timing modes: graph, eager", plan=True, many=True),
    Option("contestant", _names, "NAME", "who races (default: by device)", plan=True, many=True),
    Option(
        "leave-out",
        _names,
        "NAME",
        "who does not; a required rival left out leaves cells incomplete",
        plan=True,
        many=True,
    ),
    Option(
        "cells",
        _names,
        "GLOB",
        "only these cells, e.g. 'bf16/zipf/*' or a whole cell id",
        plan=True,
        many=True,
    ),
    Option("rounds", _whole(1), "N", "rounds of the whole race", plan=True),
    Option("sessions", _whole(1), "N", "worker restarts that the rounds are spread over", plan=True),
    Option("samples", _whole(1), "N", "timed executions of a contestant in a round", plan=True),
    Option("seed", _whole(0, _INT64_MAX), "N", "of inputs and orders", plan=True),
    Option("baseline", _text, "REV", "enter dispatch of this git revision too", plan=True),
    Option(
        "interpreter", _pair, "NAME=PYTHON", "the Python that a contestant's worker runs under", many=True
    ),
    Option("import-path", _pairs, "NAME=DIR", "folder put first on its import path (repeat)", many=True),
    Option(
        "tables",
        _pair,
        "NAME=DIR",
        "folder of a tuned contestant's tables (default: the shipped ones)",
        many=True,
    ),
    Option("lake", _path, "DIR", "where measurements are appended (default: lake)"),
    Option("db", _path, "FILE", "the warehouse built at the end (default: warehouse.db)"),
    Option("device-index", _whole(0), "N", "card, in nvidia-smi's order (default: the first visible)"),
    Option("budget-minutes", _positive, "N", "stop cleanly after this time"),
    Option("budget-usd", _positive, "N", "stop cleanly after this money; needs --rate-usd-per-h"),
    Option("rate-usd-per-h", _positive, "N", "what the machine costs; recorded with the run"),
    Option("worker-timeout", _positive, "S", "seconds that one answer of a worker may take (default: 600)"),
    Option("busy-ok", _flag, "", "race although the card is in use", flag=True),
    Option("keep-scratch", _flag, "", "keep the drawn inputs and the workers' logs", flag=True),
    Option("no-build", _flag, "", "do not build warehouse.db at the end", flag=True),
)
_BY_NAME = {option.name: option for option in OPTIONS}
PLAN_OPTIONS = frozenset(option.name for option in OPTIONS if option.plan)


def add_arguments(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Declare the options called ``names`` (default: every one); what is not given stays out of the namespace."""
    for option in OPTIONS if names is None else [_BY_NAME[name] for name in names]:
        flags = (f"--{option.name}",)
        if option.flag:
            parser.add_argument(*flags, action="store_true", default=argparse.SUPPRESS, help=option.help)
        else:
            parser.add_argument(
                *flags, action="append", default=argparse.SUPPRESS, metavar=option.metavar, help=option.help
            )


def read_toml(path: Path) -> dict[str, Any]:
    """The options of a configuration file, keys spelled as on the command line without the dashes.

    Raises:
        UsageError: the file cannot be read, is no TOML, or holds an unknown key or a wrong value.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read the configuration {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration {path} is no TOML: {error}.") from error
    unknown = sorted(set(given) - set(_BY_NAME))
    if unknown:
        raise UsageError(f"{path} has unknown keys: {', '.join(unknown)}; known are {', '.join(_BY_NAME)}.")
    return {name: _read(name, value, str(path)) for name, value in given.items()}


def read_arguments(namespace: argparse.Namespace) -> dict[str, Any]:
    """The options that were given on the command line, read.

    Raises:
        UsageError: a value is wrong.
    """
    given: dict[str, Any] = {}
    for name, option in _BY_NAME.items():
        value = getattr(namespace, name.replace("-", "_"), None)
        if value is None:
            continue
        given[name] = _read(name, value if option.flag or option.many else value[-1], "the command line")
    return given


def _read(name: str, value: Any, where: str) -> Any:
    try:
        return _BY_NAME[name].read(value)
    except ValueError as error:
        raise UsageError(f"'{name}' of {where} {error}.") from error
