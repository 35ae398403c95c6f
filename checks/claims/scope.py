"""Whether a sentence shows what its query covers: the cells, the devices, how many, and under which quantifier."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checks.claims.lexicon import DIMENSIONS, Lexicon
from checks.claims.macros import Call
from checks.claims.printed import Printed
from checks.claims.wording import always, quantified

_SHOWN = {
    "workload": "workload",
    "precision": "precision",
    "routing": "routing",
    "tokens": "token counts",
    "timing_mode": "timing mode",
    "device": "device",
}
_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]


@dataclass(frozen=True)
class Words:
    """A clause as the scope check reads it: its own words first, then what may stand in for a missing dimension."""

    text: str
    fallbacks: Sequence[str] = ()


def selected(call: Call, lexicon: Lexicon) -> tuple[tuple[str, ...], ...]:
    """Return the rows of ``lexicon.cells`` that a race macro's arguments select."""
    return lexicon.select(call.get("cells") or "*/*/*/*", call.get("mode"), call.get("device_name"))


def blanked(text: str, numbers: Sequence[Printed]) -> str:
    """Return ``text`` with the numbers that are figures, not sizes, replaced by spaces."""
    for number in numbers:
        if number.unit is not None:
            text = text[: number.start] + " " * (number.end - number.start) + text[number.end :]
    return text


def named(words: Words, lexicon: Lexicon) -> dict[str, frozenset[str]]:
    """Return what the clause names, by dimension; what it leaves out comes from the first fallback that names it."""
    found = lexicon.scope(words.text, bare_numbers=True)
    for text in words.fallbacks:
        for dimension, values in lexicon.scope(text, bare_numbers=False).items():
            found.setdefault(dimension, values)
    return found


def mismatch(call: Call, words: Words, lexicon: Lexicon, counts: Sequence[int]) -> str | None:
    """Return why the sentence does not show the scope of ``call``, a race macro; None where it does.

    Args:
        call: What was bound.
        words: The clause that it binds.
        lexicon: The lake's cells.
        counts: Numbers of cells that the clause prints and no query of its own binds.
    """
    cells = selected(call, lexicon)
    device = cells[0][-1]
    says = named(words, lexicon)
    for i, dimension in enumerate(DIMENSIONS):
        covered = frozenset(c[i] for c in cells)
        everything = lexicon.all_of(dimension) if dimension == "device" else lexicon.all_of(dimension, device)
        said = says.get(dimension)
        if said is None and covered != everything:
            return f"the query covers only {_list(covered)} of the lake's {_SHOWN[dimension]}: the sentence has to say so"
        if said is not None and said != covered:
            return f"the sentence says {_SHOWN[dimension]} {_list(said)}, the query covers {_list(covered)}"
    whole = _quantifier(words.text, cells, lexicon, device)
    if whole:
        return whole
    number = len({c[:4] for c in cells})
    for count in (*counts, *_counts_in_words(words.text)):
        if count != number:
            return f"the sentence says {count} cells, the query covers {number}"
    return None


def published_mismatch(call: Call, words: Words, lexicon: Lexicon, counts: Sequence[int]) -> str | None:
    """Return why the sentence does not show the cells of a macro over published figures.

    The lake does not know what was measured elsewhere: the lists in the query's cells are compared with the
    sentence, and 'expected' is the number of cells that the sentence is about.
    """
    if "cells" not in call.macro.parameters:
        return None
    says = named(words, lexicon)
    globs = (call.get("cells") or "*/*/*/*").split("/")
    for dimension, glob in zip(DIMENSIONS[:4], globs, strict=True):
        covered = frozenset(g.strip() for g in glob.split(",")) if "*" not in glob else None
        said = says.get(dimension)
        if covered != said and not (covered is None and dimension == "workload"):
            shown = "all" if covered is None else _list(covered)
            return f"the sentence says {_SHOWN[dimension]} {_list(said or ['nothing'])}, the query covers {shown}"
    expected = call.get("expected")
    if expected is not None and any(count != int(expected) for count in counts):
        return f"the sentence says {counts[0]} cells, the query expects {expected}"
    return None


def covers(call: Call, lexicon: Lexicon) -> Mapping[str, frozenset[str]]:
    """Return the values that a race macro covers, by dimension."""
    cells = selected(call, lexicon)
    return {d: frozenset(c[i] for c in cells) for i, d in enumerate(DIMENSIONS)}


def _quantifier(text: str, cells: Sequence[tuple[str, ...]], lexicon: Lexicon, device: str) -> str | None:
    word = always(text)
    for i, dimension in enumerate(DIMENSIONS[:5]):
        everything = lexicon.all_of(dimension, device)
        missing = everything - {c[i] for c in cells}
        if missing and (word or dimension in quantified(text)):
            shown = f"'{word}'" if word else f"every {_SHOWN[dimension]}"
            return (
                f"{shown} needs the whole set, and the query leaves out {_SHOWN[dimension]} {_list(missing)}"
            )
    if "device" in quantified(text):
        return f"the lake has measured {_list(lexicon.all_of('device'))}, not every device"
    return None


def _counts_in_words(text: str) -> list[int]:
    found = re.findall(
        rf"\b({'|'.join(_WORDS)}) (?:[a-z]\w* ){{0,2}}?(?:cells|combinations)\b", text, re.IGNORECASE
    )
    return [_WORDS.index(word.lower()) for word in found]


def _list(values: object) -> str:
    """Values for a sentence; numbers in numerical order."""
    items = [str(v) for v in values] if isinstance(values, frozenset | set | list | tuple) else [str(values)]
    return ", ".join(sorted(items, key=lambda v: (not v.isdigit(), int(v) if v.isdigit() else 0, v)))
