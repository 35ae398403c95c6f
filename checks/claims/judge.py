"""Judge one binding against the lake.

The order of verdicts: a comparison that the lake contradicts is false, whatever else is wrong with its wording; then
come bindings that do not prove the sentence (rejected); then what cannot be known; then what holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from checks.claims import reading, scope
from checks.claims.evidence import Evidence, Outcome, shorten
from checks.claims.lexicon import Lexicon
from checks.claims.macros import Call, MalformedCallError, parse_call
from checks.claims.model import Verdict
from checks.claims.printed import Printed, convert, decimal_of
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError, Row, Sandbox
from checks.claims.wording import comparatives, sameness

_AT_LEAST = re.compile(
    r"(?:at least|no less than|not less than|a minimum of|minimum|from|≥|>=|just over)[ (]*\Z", re.IGNORECASE
)
_OVER = re.compile(
    r"(?:more than|over|above|exceeding|greater than|better than|beyond|upwards of|>)[ (]*\Z", re.IGNORECASE
)
_AT_MOST = re.compile(r"(?:at most|no more than|a maximum of|maximum|within|≤|<=)[ (]*\Z", re.IGNORECASE)
_UNDER = re.compile(r"(?:less than|under|below|fewer than|nearly|almost|just under|<)[ (]*\Z", re.IGNORECASE)
_UP_TO = re.compile(
    r"(?:up to|as much as|as many as|as high as|to|and|through|-|\u2013|\u2014)[ (]*\Z", re.IGNORECASE
)
_LOW_END = re.compile(r"(?:between|from|as little as|as low as)[ (]*\Z", re.IGNORECASE)
_RANGE_GOES_ON = re.compile(r"[ ]?(?:to|and|through|-|\u2013|\u2014)[ ]?[\d.]", re.IGNORECASE)
_PER = re.compile(
    r"[ ]?/[ ]?\w+|[ ](?:per|each|an?)[ ](?:token|step|layer|call|request|second|expert|round|gpu|card)\b",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"[ ](?:less|more|fewer|extra|longer|shorter|ahead|behind|slower|faster|better|worse)\b", re.IGNORECASE
)
# The comparison that a direction word needs beside its number.
_BEATS = {"race": "beats", "decode": "decode_beats", "serving": "serving_beats"}
# A text of a hand-written query, which may be a contestant's name.
_TEXT = re.compile(r"'([\w.-]+)'")
# How a hand-written query says what its column is in.
_COLUMN_UNITS = (
    ("tokens_per_s", "tokens/s"), ("requests_per_s", "requests/s"), ("tb_per_s", "TB/s"), ("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s"),
    ("us", "us"), ("ms", "ms"), ("ns", "ns"), ("s", "s"), ("percent", "%"), ("pct", "%"), ("x", "x"), ("usd", "USD"),
    ("cells", "cells"), ("positions", "positions"),
)  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """A binding: its query, its clause, and for a number the printed digits.

    Attributes:
        query: SQL of the comment.
        clause: What it binds.
        printed: The number before the comment, two where a range ends there; empty for a statement.
        before: The sentence up to the first printed number.
        after: The sentence behind the comment.
        counts: Numbers of cells that the clause prints without a binding of their own.
    """

    query: str
    clause: reading.Clause
    printed: Sequence[Printed] = ()
    before: str = ""
    after: str = ""
    counts: Sequence[int] = ()


@dataclass
class Judge:
    """Judges bindings over one warehouse; ``policy`` is the text of today's policy, None where there is none."""

    sandbox: Sandbox
    lexicon: Lexicon
    policy: str | None = None

    def __post_init__(self) -> None:
        """Look for reasons in the same warehouse."""
        self.evidence = Evidence(self.sandbox, self.lexicon, self.policy)

    def judge(self, bound: Bound, *, number: bool) -> Outcome:
        """Return what ``bound`` comes to."""
        try:
            call = parse_call(bound.query)
            if call is None:
                return self._hand_written(bound, number=number)
            return self._typed(bound, call, number=number)
        except (MalformedCallError, QueryRefusedError) as error:
            return Outcome(Verdict.REJECTED, str(error))
        except QueryBrokeError as error:
            return Outcome(Verdict.UNJUDGED, str(error))

    # ---- typed macros ----------------------------------------------------------------------------------------

    def _typed(self, bound: Bound, call: Call, *, number: bool) -> Outcome:
        if number == (call.macro.unit == "bool"):
            form = "'= SELECT ...' behind a number" if not number else "'claim: SELECT ...'"
            return Outcome(Verdict.REJECTED, f"{call.name} is bound by {form}")
        outcome = self._number(bound, call) if number else self._statement(bound, call)
        if outcome.verdict is Verdict.HOLDS:
            return outcome
        return replace(outcome, reason=f"{outcome.reason}{self.evidence.misspelt(call.everybody)}")

    def _statement(self, bound: Bound, call: Call) -> Outcome:
        answer = self.sandbox.ask(bound.query)
        value = answer.rows[0][0] if answer.rows else None
        if value is False:
            return Outcome(Verdict.FALSE, self.evidence.contradiction(call), answer.rows)
        read = reading.read(call, bound.clause, self.lexicon)
        if isinstance(read, str):
            return Outcome(Verdict.REJECTED, read, answer.rows)
        if problem := self._scope(bound, call):
            return Outcome(*problem, answer.rows)
        if value is not True:
            return self.evidence.unknown(call, answer.rows)
        if stale := self.evidence.stale(call):
            return Outcome(Verdict.FALSE, stale, answer.rows)
        how = "supported by published figures" if call.macro.evidence == "published" else "true in the lake"
        return Outcome(Verdict.HOLDS, f"{how}: {call.sql()[7:]}", answer.rows)

    def _number(self, bound: Bound, call: Call) -> Outcome:
        pairs = self._values(bound, call)
        if isinstance(pairs, Outcome):
            return pairs
        rows = self._range(call)
        for i, (printed, exactly) in enumerate(pairs):
            before = bound.before if i == 0 else ""
            if why := _differs(printed, exactly, call.macro.unit, before, bound.clause.said):
                return Outcome(why[0], why[1], rows)
        return Outcome(Verdict.HOLDS, f"the lake gives {', '.join(shorten(v) for _, v in pairs)}", rows)

    def values(self, bound: Bound) -> list[tuple[Printed, Decimal]]:
        """Return the printed numbers of a typed binding with what the lake gives for each, in the printed unit.

        Empty unless wording, scope and direction of the sentence hold: only then can a number be merely stale.
        """
        try:
            call = parse_call(bound.query)
            pairs = self._values(bound, call) if call is not None and call.macro.unit != "bool" else []
        except (MalformedCallError, QueryRefusedError, QueryBrokeError):
            return []
        if call is None or isinstance(pairs, Outcome):
            return []
        converted = [(p, convert(v, call.macro.unit, p.unit or call.macro.unit)) for p, v in pairs]
        return [(p, v) for p, v in converted if v is not None]

    def _values(self, bound: Bound, call: Call) -> Outcome | list[tuple[Printed, Decimal]]:  # noqa: PLR0911
        """The printed numbers with the lake's exact values in the macro's unit, as the sentence turns the ratio."""
        if not bound.printed:
            return Outcome(Verdict.REJECTED, "no number stands directly before the comment")
        read = reading.read(call, bound.clause, self.lexicon)
        if isinstance(read, str):
            return Outcome(Verdict.REJECTED, read)
        if problem := self._scope(bound, call):
            return Outcome(*problem)
        if (per := _PER.match(bound.after)) and call.macro.unit != "USD":
            return Outcome(Verdict.REJECTED, f"'{per[0].strip()}' behind the number changes what it is of")
        if not call.macro.relations and (word := _COMPARED.match(bound.after)):
            return Outcome(
                Verdict.REJECTED, f"'{word[0].strip()}' behind the number compares, {call.name} does not"
            )
        rows = self._range(call)
        value = rows[0][0] if rows else None
        exact = [
            decimal_of(v) for v in ([value["low"], value["high"]] if isinstance(value, dict) else [value])
        ]
        known = [v for v in exact if v is not None]
        if len(known) < len(exact):
            return self.evidence.unknown(call, rows)
        if stale := self.evidence.stale(call):
            return Outcome(Verdict.FALSE, stale, rows)
        # speedup(A, B) is B's time over A's. Seen from the other contestant it is turned round, and so is a ratio.
        backwards = read.relation is not None and read.forward == call.macro.inverse
        turned = sorted(_turned(v, call.macro.unit) if backwards else v for v in known)
        if (
            read.directed
            and call.macro.unit in {"x", "%"}
            and (why := self._no_lead(call, turned[0], forward=read.forward))
        ):
            return Outcome(Verdict.FALSE, why, rows)
        chosen = _chosen(call, turned, bound)
        if isinstance(chosen, str):
            return Outcome(Verdict.REJECTED, chosen, rows)
        return list(zip(bound.printed[-len(chosen) :], chosen, strict=True))

    def _range(self, call: Call) -> tuple[Row, ...]:
        """The macro's value; of a range always both ends, since turning a ratio round swaps them."""
        return self.sandbox.ask(Call(call.name, call.arguments).sql()).rows

    def _scope(self, bound: Bound, call: Call) -> tuple[Verdict, str] | None:
        """Return why the sentence does not show what the query covers."""
        words = scope.Words(bound.clause.said, bound.clause.around)
        if call.macro.evidence == "published":
            why = scope.published_mismatch(call, words, self.lexicon, bound.counts)
            return (Verdict.REJECTED, why) if why else None
        if "cells" not in call.macro.parameters:
            return self._other_count(bound, call)
        if not scope.selected(call, self.lexicon):
            devices = sorted({c[-1] for c in self.lexicon.cells})
            if call.get("device_name") is None and len(devices) > 1:
                return (
                    Verdict.REJECTED,
                    f"the lake has {len(devices)} devices: give device_name := one of {', '.join(devices)}",
                )
            return Verdict.UNJUDGED, f"no cell of the lake is {call.get('cells')}; there is no evidence"
        why = scope.mismatch(call, words, self.lexicon, bound.counts)
        return (Verdict.REJECTED, why) if why else None

    def _other_count(self, bound: Bound, call: Call) -> tuple[Verdict, str] | None:
        """Return which count, printed beside a figure that is no race's, is not the one that was compared."""
        if not bound.counts:
            return None
        if call.macro.domain != "gate":
            return Verdict.REJECTED, f"{bound.counts[0]} cells or positions are nothing that {call.name} has"
        compared = self.sandbox.rows(call.sql("positions"))[0][0]
        other = next((n for n in bound.counts if n != compared), None)
        if other is None or compared is None:
            return None
        return Verdict.REJECTED, f"the sentence says {other} positions, the lake has {compared}"

    def _no_lead(self, call: Call, least: Decimal, *, forward: bool) -> str | None:
        """Return why a direction word ('faster', 'slower') does not hold: on the wrong side of 1, or a tie."""
        line = Decimal(0) if call.macro.unit == "%" else Decimal(1)
        ahead, behind = call.get("entrant"), call.get("opponent")
        if not forward:
            ahead, behind = behind, ahead
        if least <= line:
            return f"{ahead} is not ahead of {behind}: the lake gives {shorten(least)}"
        beats = _BEATS.get(call.macro.domain)
        if beats is not None and call.macro.evidence == "measured" and call.name != "geomean_speedup":
            sql = call.sql(beats, entrant=ahead, opponent=behind)
            if self.sandbox.ask(sql).rows[0][0] is not True:
                return f"{ahead} and {behind} are too close to call within the noise ({shorten(least)})"
        return None

    # ---- hand-written queries --------------------------------------------------------------------------------

    def _hand_written(self, bound: Bound, *, number: bool) -> Outcome:  # noqa: PLR0911
        clause = bound.clause
        answer = self.sandbox.ask(bound.query)
        names = [m.name for m in self.lexicon.mentions(clause.said)]
        found = comparatives(clause.said)
        configured = bool(self.lexicon.configurations_named(clause.said))
        if why := self._somebody_else(bound, names):
            return Outcome(Verdict.REJECTED, why, answer.rows[:3])
        counted = number and bool(bound.printed) and bound.printed[-1].unit == "positions"
        if (same := sameness(clause.said)) and (names or configured) and not counted:
            return Outcome(
                Verdict.REJECTED,
                f"'{same[0]}' is what the gate measures: print the share and bind it with '= SELECT agreement(...)'",
            )
        if found and (names or configured or self.lexicon.names_somebody(clause.said)):
            instead = reading.instead(found[0].relation)
            return Outcome(
                Verdict.REJECTED,
                f"'{found[0].text}' compares contestants and binds only through a typed macro{instead}",
            )
        if why := self.sandbox.why_it_proves_nothing(bound.query):
            return Outcome(Verdict.REJECTED, why, answer.rows)
        if not answer.rows:
            typo = self.evidence.misspelt(_TEXT.findall(bound.query))
            return Outcome(Verdict.UNJUDGED, f"the query returns no rows; there is no evidence{typo}")
        if any(row[0] is None for row in answer.rows):
            return Outcome(Verdict.UNJUDGED, "the query returns NULL: unknown", answer.rows)
        if not number:
            if any(not isinstance(row[0], bool) for row in answer.rows) or len(answer.columns) != 1:
                return Outcome(
                    Verdict.REJECTED, "a claim's query returns one boolean column", answer.rows[:3]
                )
            false = sum(row[0] is False for row in answer.rows)
            if false:
                return Outcome(
                    Verdict.FALSE,
                    f"the query is false in {false} of {len(answer.rows)} rows",
                    answer.rows[:3],
                )
            return Outcome(Verdict.HOLDS, f"the query is true over {len(answer.rows)} rows", answer.rows[:3])
        return self._hand_number(bound, answer.columns, answer.rows, names)

    def _somebody_else(self, bound: Bound, names: Sequence[str]) -> str | None:
        """Return that the sentence names somebody and the query picks only others, by a name written in it."""
        said = {*names, *self.lexicon.configurations_named(bound.clause.said)}
        known = self.lexicon.contestants | self.lexicon.configurations | {"stock_vs_stock"}
        picked = known & set(_TEXT.findall(bound.query))
        meant = picked | {self.lexicon.houses.get(name, name) for name in picked}
        if any(name in self.lexicon.configurations and not name.startswith("stock") for name in picked):
            meant |= {"dispatch", "dispatch-naive", "dispatch-persistent"}
        if not said or not picked or said & meant:
            return None
        return f"the sentence is about {', '.join(sorted(said))}, the query about {', '.join(sorted(picked))}"

    def _hand_number(  # noqa: PLR0911
        self, bound: Bound, columns: tuple[str, ...], rows: tuple[Row, ...], names: Sequence[str]
    ) -> Outcome:
        if not bound.printed:
            return Outcome(Verdict.REJECTED, "no number stands directly before the comment")
        printed = bound.printed[-1]
        if len(rows) != 1 or len(columns) != 1:
            return Outcome(
                Verdict.REJECTED,
                f"a number's query returns one value, not {len(rows)} rows of {len(columns)}",
                rows[:3],
            )
        value = decimal_of(rows[0][0])
        if value is None:
            return Outcome(
                Verdict.UNJUDGED, f"the query returns {rows[0][0]!r}, which is no finite number", rows
            )
        if self.lexicon.configurations_named(bound.clause.said) and printed.unit == "%":
            return Outcome(
                Verdict.REJECTED, "an agreement of the gate binds only through agreement(...)", rows
            )
        if names and printed.unit not in {None, "cells", "positions"}:
            return Outcome(
                Verdict.REJECTED,
                f"figures of contestants ({', '.join(sorted(set(names)))}) bind only through typed macros",
                rows,
            )
        if {str(printed.value), printed.text, f"{printed.value:f}"} & self.sandbox.literals(bound.query):
            return Outcome(
                Verdict.REJECTED, "the query contains the printed number itself; that proves nothing", rows
            )
        unit = next(
            (
                u
                for suffix, u in _COLUMN_UNITS
                if columns[0].lower().endswith(f"_{suffix}") or columns[0].lower() == suffix
            ),
            None,
        )
        if unit is None and printed.unit is not None:
            return Outcome(
                Verdict.REJECTED,
                f"the unit of the query's column is unknown: name it ..._us, ..._percent, ... for {printed.unit}",
                rows,
            )
        why = _differs(printed, value, unit or "", bound.before, bound.clause.said)
        return (
            Outcome(why[0], why[1], rows)
            if why
            else Outcome(Verdict.HOLDS, f"the lake gives {shorten(value)}", rows)
        )


def _turned(value: Decimal, unit: str) -> Decimal:
    """Return a ratio of times, or a percentage over one, seen from the other side."""
    if unit == "%":
        return Decimal(100) / (1 + value / 100) - 100
    return 1 / value if unit == "x" else value


def _chosen(call: Call, turned: Sequence[Decimal], bound: Bound) -> list[Decimal] | str:  # noqa: PLR0911
    """The values that the printed numbers have to show: both ends of a range, or the one that was asked for."""
    if not call.macro.ranged:
        return [turned[-1]]
    if not call.part:
        if len(bound.printed) != 2:  # noqa: PLR2004  (a range has two ends)
            return f"{call.name} gives two numbers: print 'A to B', or ask for .low or .high"
        return list(turned)
    before = bound.before.rstrip()
    if call.part == "low":
        if not (_AT_LEAST.search(before) or _LOW_END.search(before) or _RANGE_GOES_ON.match(bound.after)):
            return "the least of several cells is printed: say 'at least'"
        return [turned[0]]
    if not (_UP_TO.search(before) or _AT_MOST.search(before)):
        return "the greatest of several cells is printed: say 'up to'"
    return [turned[-1]]


def _differs(
    printed: Printed, value: Decimal, unit: str, before: str, said: str
) -> tuple[Verdict, str] | None:
    """Return why ``value`` in ``unit`` is not what is printed; None where it is."""
    shown = printed.unit
    if (
        shown is None
        and unit == "x"
        and not re.search(r"speed-?up|ratio|factor|times|geomean|mean", said, re.IGNORECASE)
    ):
        return Verdict.REJECTED, f"{printed.text} has no unit, the query's is {unit}"
    if shown is None and unit not in {"x", ""} | {"cells", "positions"}:
        return Verdict.REJECTED, f"{printed.text} has no unit, the query's is {unit}"
    converted = convert(value, unit, shown or unit)
    if converted is None:
        return (
            Verdict.FALSE,
            f"the sentence prints {shown}, the query gives {unit or 'a number without a unit'}",
        )
    low, high = printed.low, printed.high
    if not printed.stands_for(converted):
        return (
            Verdict.FALSE,
            f"{printed.text} stands for [{low:f}, {high:f}), the lake gives {shorten(converted)}",
        )
    edge = before.rstrip()
    wrong = (
        (_AT_LEAST.search(edge) and converted < printed.value)
        or (_OVER.search(edge) and converted <= printed.value)
        or (_AT_MOST.search(edge) and converted > printed.value)
        or (_UNDER.search(edge) and converted >= printed.value)
    )
    if wrong:
        return (
            Verdict.FALSE,
            f"the lake gives {shorten(converted)}, which is not '{' '.join(edge.split()[-2:])} {printed.text}'",
        )
    return None
