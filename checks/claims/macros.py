"""The typed macros that claims are bound with: what each takes, gives, and may be said of it.

Their SQL stands in ``queries/views/95_claim_macros.sql`` and, beside the race, ``96_claim_macros_beside.sql``. A typed call is ``SELECT macro('a', 'b', ...)`` with
constant arguments and nothing else, so that no condition can be added to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.claims.wording import Relation

_SIDES = frozenset({Relation.FASTER, Relation.SLOWER, Relation.LEAD})
_RATIOS = _SIDES | {Relation.AS_FAST, Relation.AS_LONG, Relation.SPEEDUP}


@dataclass(frozen=True)
class Macro:
    """One macro.

    Attributes:
        parameters: Their names in order; those behind ``required`` have a default.
        unit: Canonical unit of its value; 'bool' for a comparison.
        relations: Comparatives that it proves; empty for a macro of one contestant.
        ranged: Gives {low, high}.
        evidence: 'measured', or 'published' for figures of a text.
        inverse: Its value is the time of the first over the second, not the other way round.
        domain: 'race', 'gate', 'decode', 'serving': what the sentence has to be about.
    """

    parameters: tuple[str, ...]
    required: int
    unit: str
    relations: frozenset[Relation] = frozenset()
    ranged: bool = False
    evidence: str = "measured"
    inverse: bool = False
    domain: str = "race"


_CELLS = ("cells", "mode", "device_name")
_ONE = ("entrant", *_CELLS)
_TWO = ("entrant", "opponent", *_CELLS)
_PLACE = ("model_name", "device_name")
_SERVED_TWO = ("entrant", "opponent", "concurrency", "metric_name")
MACROS: dict[str, Macro] = {
    "wins": Macro(("entrant", "cells", "rivals", "mode", "device_name"), 2, "bool", _SIDES | {Relation.WIN}),
    "beats": Macro(_TWO, 3, "bool", _SIDES),
    "ties": Macro(_TWO, 3, "bool", frozenset({Relation.TIE, Relation.AS_FAST})),
    "speedup": Macro(_TWO, 3, "x", _RATIOS),
    "ratio": Macro(_TWO, 3, "x", _RATIOS, inverse=True),
    "percent_faster": Macro(_TWO, 3, "%", _SIDES),
    "speedup_range": Macro(_TWO, 3, "x", _RATIOS, ranged=True),
    "percent_faster_range": Macro(_TWO, 3, "%", _SIDES, ranged=True),
    "geomean_speedup": Macro(_TWO, 3, "x", _RATIOS),
    "time_us": Macro(_ONE, 2, "us"),
    "time_range_us": Macro(_ONE, 2, "us", ranged=True),
    "x_floor": Macro(_ONE, 2, "x"),
    "x_floor_range": Macro(_ONE, 2, "x", ranged=True),
    "cells": Macro(_CELLS, 1, "cells"),
    "wins_count": Macro(_ONE, 2, "cells", frozenset({Relation.WIN})),
    "beats_count": Macro(_TWO, 3, "cells", _SIDES),
    "agreement": Macro(("configuration", *_PLACE), 1, "%", domain="gate"),
    "agreement_range": Macro(("configuration", *_PLACE), 1, "%", ranged=True, domain="gate"),
    "positions": Macro(("configuration", *_PLACE), 1, "positions", domain="gate"),
    "decode_tokens_per_second": Macro(("entrant", *_PLACE), 1, "tokens/s", domain="decode"),
    "decode_speedup": Macro(("entrant", "opponent", *_PLACE), 2, "x", _RATIOS, domain="decode"),
    "decode_beats": Macro(("entrant", "opponent", *_PLACE), 2, "bool", _SIDES, domain="decode"),
    "tokens_per_second": Macro(("entrant", "concurrency", *_PLACE), 2, "tokens/s", domain="serving"),
    "ttft_ms": Macro(("entrant", "concurrency", *_PLACE), 2, "ms", domain="serving"),
    "cost_per_m_output_tokens": Macro(("entrant", "concurrency", *_PLACE), 2, "USD", domain="serving"),
    "serving_speedup": Macro((*_SERVED_TWO, *_PLACE), 4, "x", _RATIOS, domain="serving"),
    "serving_beats": Macro((*_SERVED_TWO, *_PLACE), 4, "bool", _SIDES, domain="serving"),
    "published_beats": Macro(
        ("entrant", "opponent", "cells", "metric_name", "expected"), 2, "bool", _SIDES | {Relation.WIN}, evidence="published"
    ),
    "published_speedup": Macro(("entrant", "opponent", "metric_name", "cells"), 3, "x", _RATIOS, evidence="published"),
    "published_geomean_speedup": Macro(
        ("entrant", "opponent", "metric_name", "expected", "cells"), 4, "x", _RATIOS, evidence="published"
    ),
    "published_beats_count": Macro(
        ("entrant", "opponent", "metric_name", "expected", "cells"), 4, "cells", _SIDES, evidence="published"
    ),
    "published_range": Macro(("entrants", "metric_name"), 2, "%", ranged=True, evidence="published", domain="gate"),
}  # fmt: skip

_CALL = re.compile(
    r"\s*SELECT\s+\(?\s*(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*\)?(?:\.(?P<part>low|high))?(?:\s+AS\s+\w+)?\s*;?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_ARGUMENT = re.compile(
    r"\s*(?:(?P<name>\w+)\s*:=\s*)?(?:'(?P<text>(?:[^']|'')*)'|(?P<number>\d+)|(?P<null>NULL))\s*(?:,|\Z)",
    re.IGNORECASE,
)

# Parameters that stand in the SQL as digits.
_COUNTS = frozenset({"concurrency", "expected"})


class MalformedCallError(ValueError):
    """A call of a typed macro with arguments that it does not take."""


@dataclass(frozen=True)
class Call:
    """A typed call: the macro, its arguments by name, and which end of a range was asked for."""

    name: str
    arguments: Mapping[str, str]
    part: str = ""

    @property
    def macro(self) -> Macro:
        """What is called."""
        return MACROS[self.name]

    def get(self, parameter: str) -> str | None:
        """Return an argument, None where it was left out."""
        return self.arguments.get(parameter)

    def names(self, parameter: str) -> tuple[str, ...]:
        """Return the contestants of an argument; several are separated by commas."""
        return tuple(part.strip() for part in (self.get(parameter) or "").split(",") if part.strip())

    @property
    def everybody(self) -> tuple[str, ...]:
        """Every contestant, engine or configuration that the arguments name."""
        return tuple(n for p in ("entrant", "opponent", "rivals", "configuration") for n in self.names(p))

    def sql(self, name: str = "", **changed: str | None) -> str:
        """Return the call as SQL, of another macro or with other arguments; arguments it does not take are left out."""
        macro = MACROS[name or self.name]
        values = {**self.arguments, **changed}
        shown = []
        for i, parameter in enumerate(macro.parameters):
            value = values.get(parameter)
            if value is None:
                continue
            literal = value if parameter in _COUNTS else "'" + value.replace("'", "''") + "'"
            shown.append(literal if i < macro.required else f"{parameter} := {literal}")
        part = f".{self.part}" if self.part and macro.ranged else ""
        return f"SELECT {name or self.name}({', '.join(shown)}){part}"


def parse_call(sql: str) -> Call | None:
    """Return the typed call that ``sql`` is, None for hand-written SQL.

    Raises:
        MalformedCallError: a typed macro is called with arguments that it does not take.
    """
    match = _CALL.match(sql)
    if not match or match["name"].lower() not in MACROS:
        return None
    name = match["name"].lower()
    macro = MACROS[name]
    arguments: dict[str, str] = {}
    text, position, place = match["arguments"], 0, 0
    while position < len(text):
        found = _ARGUMENT.match(text, position)
        if not found:
            return None  # an expression: hand-written
        parameter = (found["name"] or "").lower()
        if not parameter:
            if place >= len(macro.parameters):
                raise MalformedCallError(f"{name} takes {len(macro.parameters)} arguments: {signature(name)}")
            parameter = macro.parameters[place]
            place += 1
        if parameter not in macro.parameters or parameter in arguments:
            raise MalformedCallError(f"{name} takes no argument '{parameter}' here: {signature(name)}")
        if parameter in _COUNTS and found["text"] is not None:
            raise MalformedCallError(f"{parameter} is a number without quotes, not '{found['text']}'")
        if not found["null"]:
            arguments[parameter] = found["number"] or found["text"].replace("''", "'")
        position = found.end()
    missing = [p for p in macro.parameters[: macro.required] if p not in arguments and p != "opponent"]
    if missing:
        raise MalformedCallError(f"{name} needs '{missing[0]}': {signature(name)}")
    if match["part"] and not macro.ranged:
        raise MalformedCallError(f"{name} is no range and has no .{match['part']}")
    if arguments.get("cells", "a/b/c/d").count("/") != 3:  # noqa: PLR2004  (four parts)
        raise MalformedCallError(
            f"cells is 'workload/precision/routing/tokens', each a glob, not '{arguments['cells']}'"
        )
    return Call(name, arguments, (match["part"] or "").lower())


def signature(name: str) -> str:
    """Return how a macro is called."""
    macro = MACROS[name]
    shown = [p if i < macro.required else f"{p} := NULL" for i, p in enumerate(macro.parameters)]
    return f"{name}({', '.join(shown)})"
