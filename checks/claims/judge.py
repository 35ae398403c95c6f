"""One binding against the lake: is what it says so?

The order of verdicts: a comparison that the lake contradicts is false, whatever else is wrong with its wording; then
come bindings that do not prove the sentence (rejected); then what cannot be known; then what holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from checks.claims import reading, scope
from checks.claims.lexicon import Lexicon
from checks.claims.macros import Call, MalformedCallError, parse_call
from checks.claims.model import Verdict
from checks.claims.printed import Printed, convert, decimal_of
from checks.claims.sandbox import QueryBrokeError, QueryRefusedError, Row, Sandbox
from checks.claims.wording import comparatives

_AT_LEAST = re.compile(r"(?:at least|no less than|not less than|a minimum of|minimum|from|≥|>=|just over)[ (]*\Z", re.IGNORECASE)
_OVER = re.compile(r"(?:more than|over|above|exceeding|greater than|better than|beyond|upwards of|>)[ (]*\Z", re.IGNORECASE)
_AT_MOST = re.compile(r"(?:at most|no more than|a maximum of|maximum|within|≤|<=)[ (]*\Z", re.IGNORECASE)
_UNDER = re.compile(r"(?:less than|under|below|fewer than|nearly|almost|just under|<)[ (]*\Z", re.IGNORECASE)
_UP_TO = re.compile(r"(?:up to|as much as|as many as|as high as|to|and|through|-|–|—)[ (]*\Z", re.IGNORECASE)
_LOW_END = re.compile(r"(?:between|from|as little as|as low as)[ (]*\Z", re.IGNORECASE)
_RANGE_GOES_ON = re.compile(r"[ ]?(?:to|and|through|-|–|—)[ ]?[\d.]", re.IGNORECASE)
# How a hand-written query says what its column is in.
_COLUMN_UNITS = (
    ("tokens_per_s", "tokens/s"), ("requests_per_s", "requests/s"), ("tb_per_s", "TB/s"), ("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s"),
    ("us", "us"), ("ms", "ms"), ("ns", "ns"), ("s", "s"), ("percent", "%"), ("pct", "%"), ("x", "x"), ("usd", "USD"),
    ("cells", "cells"), ("positions", "positions"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A verdict with its reason and the rows that it rests on."""

    verdict: Verdict
    reason: str
    rows: tuple[Row, ...] = ()


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

    def judge(self, bound: Bound, *, number: bool) -> Outcome:
        """Return what ``bound`` comes to."""
        try:
            call = parse_call(bound.query)
            self.sandbox.ask("SELECT 1")  # the sandbox is open
            if call is None:
                return self._hand_written(bound, number=number)
            if number == (call.macro.unit == "bool"):
                form = "'= SELECT ...' behind a number" if not number else "'claim: SELECT ...'"
                return Outcome(Verdict.REJECTED, f"{call.name} is bound by {form}")
            return self._number(bound, call) if number else self._statement(bound, call)
        except (MalformedCallError, QueryRefusedError) as error:
            return Outcome(Verdict.REJECTED, str(error))
        except QueryBrokeError as error:
            return Outcome(Verdict.UNJUDGED, str(error))

    # ---- typed macros ----------------------------------------------------------------------------------------

    def _statement(self, bound: Bound, call: Call) -> Outcome:
        answer = self.sandbox.ask(bound.query)
        value = answer.rows[0][0] if answer.rows else None
        if value is False:
            return Outcome(Verdict.FALSE, self._contradiction(call), answer.rows)
        read = reading.read(call, bound.clause, self.lexicon)
        if isinstance(read, str):
            return Outcome(Verdict.REJECTED, read, answer.rows)
        if problem := self._scope(bound, call):
            return Outcome(*problem, answer.rows)
        if value is not True:
            return self._unknown(call, answer.rows)
        if stale := self._stale(call):
            return Outcome(Verdict.FALSE, stale, answer.rows)
        how = "supported by published figures" if call.macro.evidence == "published" else "true in the lake"
        return Outcome(Verdict.HOLDS, f"{how}: {call.sql()[7:]}", answer.rows)

    def _number(self, bound: Bound, call: Call) -> Outcome:
        if not bound.printed:
            return Outcome(Verdict.REJECTED, "no number stands directly before the comment")
        read = reading.read(call, bound.clause, self.lexicon)
        if isinstance(read, str):
            return Outcome(Verdict.REJECTED, read)
        if problem := self._scope(bound, call):
            return Outcome(*problem)
        base = Call(call.name, call.arguments) if call.macro.ranged else call
        answer = self.sandbox.ask(base.sql())
        value = answer.rows[0][0] if answer.rows else None
        values = [value["low"], value["high"]] if isinstance(value, dict) else [value]
        exact = [decimal_of(v) for v in values]
        known = [v for v in exact if v is not None]
        if len(known) < len(exact):
            return self._unknown(call, answer.rows)
        if stale := self._stale(call):
            return Outcome(Verdict.FALSE, stale, answer.rows)
        backwards = read.relation is not None and read.forward == call.macro.inverse
        # 'A is 1.2x slower' and 'takes 1.2x as long' turn the ratio of times round once more.
        if read.relation is reading.Relation.AS_LONG:
            backwards = read.forward != call.macro.inverse and not read.forward
        oriented = sorted(_oriented(v, call.macro.unit, backwards=backwards) for v in known)
        if read.directed and call.macro.unit in {"x", "%"} and (why := self._no_lead(call, oriented[0], forward=read.forward)):
            return Outcome(Verdict.FALSE, why, answer.rows)
        chosen = _chosen(call, oriented, bound)
        if isinstance(chosen, str):
            return Outcome(Verdict.REJECTED, chosen, answer.rows)
        pairs = list(zip(bound.printed[-len(chosen) :], chosen, strict=True))
        for i, (printed, exactly) in enumerate(pairs):
            before = bound.before if i == 0 else ""
            if why := _differs(printed, exactly, call.macro.unit, before, bound.clause.said):
                return Outcome(why[0], why[1], answer.rows)
        return Outcome(Verdict.HOLDS, f"the lake gives {', '.join(_short(v) for _, v in pairs)}", answer.rows)

    def value(self, bound: Bound) -> list[tuple[Printed, Decimal]] | None:
        """Return the printed numbers of a binding with the values that the lake gives in their unit.

        None unless the binding is sound: only a number that is merely stale can be rewritten.
        """
        call = parse_call(bound.query)
        outcome = self.judge(bound, number=True)
        if call is None or outcome.verdict is not Verdict.FALSE or not bound.printed:
            return None
        read = reading.read(call, bound.clause, self.lexicon)
        if isinstance(read, str) or self._stale(call):
            return None
        value = outcome.rows[0][0] if outcome.rows else None
        values = [value["low"], value["high"]] if isinstance(value, dict) else [value]
        known = [v for v in map(decimal_of, values) if v is not None]
        backwards = read.relation is not None and read.forward == call.macro.inverse
        if read.relation is reading.Relation.AS_LONG:
            backwards = read.forward != call.macro.inverse and not read.forward
        oriented = sorted(_oriented(v, call.macro.unit, backwards=backwards) for v in known)
        if not oriented or (
            read.directed and call.macro.unit in {"x", "%"} and self._no_lead(call, oriented[0], forward=read.forward)
        ):
            return None
        chosen = _chosen(call, oriented, bound)
        if isinstance(chosen, str):
            return None
        out = []
        for printed, exactly in zip(bound.printed[-len(chosen) :], chosen, strict=True):
            converted = convert(exactly, call.macro.unit, printed.unit or call.macro.unit)
            if converted is None:
                return None
            out.append((printed, converted))
        return out

    def _scope(self, bound: Bound, call: Call) -> tuple[Verdict, str] | None:
        """Return why the sentence does not show what the query covers."""
        words = scope.Words(bound.clause.said, bound.clause.around)
        if call.macro.evidence == "published":
            why = scope.published_mismatch(call, words, self.lexicon, bound.counts)
            return (Verdict.REJECTED, why) if why else None
        if "cells" not in call.macro.parameters:
            return None
        if not scope.selected(call, self.lexicon):
            devices = sorted({c[-1] for c in self.lexicon.cells})
            if call.get("device_name") is None and len(devices) > 1:
                return Verdict.REJECTED, f"the lake has {len(devices)} devices: give device_name := one of {', '.join(devices)}"
            return Verdict.UNJUDGED, f"no cell of the lake is {call.get('cells')}; there is no evidence"
        why = scope.mismatch(call, words, self.lexicon, bound.counts)
        return (Verdict.REJECTED, why) if why else None

    def _no_lead(self, call: Call, least: Decimal, *, forward: bool) -> str | None:
        """Return why a direction word ('faster', 'slower') does not hold: on the wrong side of 1, or a tie."""
        line = Decimal(0) if call.macro.unit == "%" else Decimal(1)
        ahead, behind = call.get("entrant"), call.get("opponent")
        if not forward:
            ahead, behind = behind, ahead
        if least <= line:
            return f"{ahead} is not ahead of {behind}: the lake gives {_short(least)}"
        if call.macro.domain == "race" and call.macro.evidence == "measured" and call.name != "geomean_speedup":
            sql = call.sql("beats", entrant=ahead, opponent=behind)
            if self.sandbox.ask(sql).rows[0][0] is not True:
                return f"{ahead} and {behind} are too close to call within the noise of the race ({_short(least)})"
        return None

    def _stale(self, call: Call) -> str | None:
        """Return why evidence that is there no longer counts: it was measured under another policy."""
        if self.policy is None or call.macro.domain != "race" or call.macro.evidence == "published":
            return None
        today = _race_policy(self.policy)
        run_ids = self.sandbox.rows(
            f"SELECT DISTINCT c.policy_sha256, p.policy_toml FROM {_source(call, 'claim_cells')} c "  # noqa: S608
            "LEFT JOIN policies p ON p.policy_sha256 = c.policy_sha256 ORDER BY ALL"
        )
        for sha256, text in run_ids:
            then = _race_policy(text) if text else None
            if then is not None and then != today:
                key = next(k for k in sorted({*then, *today}) if then.get(k) != today.get(k))
                return f"stale: measured under the policy {sha256[:8]}, in which race.{key} is another than today"
        return None

    def _unknown(self, call: Call, rows: tuple[Row, ...]) -> Outcome:
        """Why a macro gives NULL: a cell that is there but cannot be judged makes the claim stale, hence false."""
        if call.macro.evidence == "published" and call.name == "published_beats":
            found = self.sandbox.rows(
                f"SELECT count(DISTINCT cell_key) FROM {_points(call)}"  # noqa: S608
            )[0][0]
            return Outcome(
                Verdict.UNJUDGED,
                f"published figures cover {found} of {call.get('expected') or 'an unknown number of'} cells, and support it there"
                if found
                else "no published figures cover it",
                rows,
            )
        if "cells" in call.macro.parameters and call.macro.evidence == "measured":
            table = "claim_pairs" if "opponent" in call.macro.parameters or call.get("rivals") else "claim_times"
            if call.name in {"wins", "wins_count", "cells"} and not call.get("rivals"):
                reasons = self.sandbox.rows(
                    f"SELECT cell_id, timing_mode, outcome_text FROM {_source(call, 'claim_cells')} "  # noqa: S608
                    "WHERE NOT decisive ORDER BY ALL LIMIT 1"
                )
            else:
                reasons = self.sandbox.rows(
                    f"SELECT cell_id, timing_mode, reason FROM {_source(call, table)} "  # noqa: S608
                    "WHERE reason IS NOT NULL ORDER BY ALL LIMIT 1"
                )
            if reasons:
                cell, mode, reason = reasons[0]
                return Outcome(Verdict.FALSE, f"stale: {cell} ({mode}) is {reason}", rows)
            if len(scope.selected(call, self.lexicon)) > 1:
                several = len(scope.selected(call, self.lexicon))
                return Outcome(Verdict.REJECTED, f"{call.name} is about one cell and mode, the query selects {several}", rows)
        return Outcome(Verdict.UNJUDGED, f"the lake holds no evidence for {call.sql()[7:]}", rows)

    def _contradiction(self, call: Call) -> str:
        """The cell that contradicts a comparison the most."""
        if call.macro.evidence == "published":
            row = self.sandbox.rows(
                f"SELECT compared, against, speedup, cell_key FROM {_points(call)} "  # noqa: S608
                f"WHERE faster IS DISTINCT FROM '{call.get('entrant')}' ORDER BY speedup, cell_key, compared LIMIT 1"
            )
            if row:
                metric, rival, speedup, key = row[0]
                return f"published figures contradict it: {rival} is ahead by {metric} ({1 / speedup:.3f}x, {key})"
            return "published figures contradict it"
        if call.name in {"beats", "ties"} or call.get("rivals"):
            condition = "level" if call.name == "ties" else "beaten"
            row = self.sandbox.rows(
                f"SELECT cell_id, timing_mode, against, speedup, lo, hi FROM {_source(call, 'claim_pairs')} "  # noqa: S608
                f"WHERE NOT {condition} ORDER BY lo, cell_id, timing_mode, against LIMIT 1"
            )
            cell, mode, rival, speedup, lo, hi = row[0]
            return f"{call.get('entrant')} against {rival} is {speedup:.3f}x [{lo:.3f}, {hi:.3f}] in {cell} ({mode})"
        row = self.sandbox.rows(
            f"SELECT cell_id, timing_mode, outcome_text, winner FROM {_source(call, 'claim_cells')} "  # noqa: S608
            f"WHERE decisive AND NOT coalesce(outcome = 'win' AND '{call.get('entrant')}' IN (winner, house) AND wins_over_all, FALSE) "
            "ORDER BY ALL LIMIT 1"
        )
        if not row:
            return "the wide interval does not clear the tie band in every cell"
        cell, mode, outcome, winner = row[0]
        return f"{cell} ({mode}) is {outcome}" + (f" by {winner}" if winner else "")

    # ---- hand-written queries --------------------------------------------------------------------------------

    def _hand_written(self, bound: Bound, *, number: bool) -> Outcome:
        clause = bound.clause
        self.sandbox.ask("SELECT 1")
        answer = self.sandbox.ask(bound.query)
        names = [m.name for m in self.lexicon.mentions(clause.said)]
        found = comparatives(clause.said)
        if found and (names or self.lexicon.names_somebody(clause.said)):
            instead = reading._instead(found[0].relation)
            return Outcome(Verdict.REJECTED, f"'{found[0].text}' compares contestants and binds only through a typed macro{instead}")
        if why := self.sandbox.why_it_proves_nothing(bound.query):
            return Outcome(Verdict.REJECTED, why, answer.rows)
        if not answer.rows:
            return Outcome(Verdict.UNJUDGED, "the query returns no rows; there is no evidence")
        if any(row[0] is None for row in answer.rows):
            return Outcome(Verdict.UNJUDGED, "the query returns NULL: unknown", answer.rows)
        if not number:
            if any(not isinstance(row[0], bool) for row in answer.rows) or len(answer.columns) != 1:
                return Outcome(Verdict.REJECTED, "a claim's query returns one boolean column", answer.rows[:3])
            false = sum(row[0] is False for row in answer.rows)
            if false:
                return Outcome(Verdict.FALSE, f"the query is false in {false} of {len(answer.rows)} rows", answer.rows[:3])
            return Outcome(Verdict.HOLDS, f"the query is true over {len(answer.rows)} rows", answer.rows[:3])
        return self._hand_number(bound, answer.columns, answer.rows, names)

    def _hand_number(self, bound: Bound, columns: tuple[str, ...], rows: tuple[Row, ...], names: Sequence[str]) -> Outcome:
        if not bound.printed:
            return Outcome(Verdict.REJECTED, "no number stands directly before the comment")
        printed = bound.printed[-1]
        if len(rows) != 1 or len(columns) != 1:
            return Outcome(Verdict.REJECTED, f"a number's query returns one value, not {len(rows)} rows of {len(columns)}", rows[:3])
        value = decimal_of(rows[0][0])
        if value is None:
            return Outcome(Verdict.UNJUDGED, f"the query returns {rows[0][0]!r}, which is no finite number", rows)
        if names and printed.unit not in {None, "cells", "positions"}:
            return Outcome(Verdict.REJECTED, f"figures of contestants ({', '.join(sorted(set(names)))}) bind only through typed macros", rows)
        if {str(printed.value), printed.text, f"{printed.value:f}"} & self.sandbox.literals(bound.query):
            return Outcome(Verdict.REJECTED, "the query contains the printed number itself; that proves nothing", rows)
        unit = next((u for suffix, u in _COLUMN_UNITS if columns[0].lower().endswith(f"_{suffix}") or columns[0].lower() == suffix), None)
        if unit is None and printed.unit is not None:
            return Outcome(Verdict.REJECTED, f"the unit of the query's column is unknown: name it ..._us, ..._percent, ... for {printed.unit}", rows)
        why = _differs(printed, value, unit or "", bound.before, bound.clause.said)
        return Outcome(why[0], why[1], rows) if why else Outcome(Verdict.HOLDS, f"the lake gives {_short(value)}", rows)


def _oriented(value: Decimal, unit: str, *, backwards: bool) -> Decimal:
    """Return a ratio, or a percentage over one, seen from the other side."""
    if not backwards or unit not in {"x", "%"}:
        return value
    if unit == "%":
        return Decimal(100) / (1 + value / 100) - 100
    return 1 / value


def _chosen(call: Call, oriented: Sequence[Decimal], bound: Bound) -> list[Decimal] | str:
    """The values that the printed numbers have to show: both ends of a range, or the one that was asked for."""
    if not call.macro.ranged:
        return [oriented[-1]]
    if not call.part:
        if len(bound.printed) != 2:  # noqa: PLR2004  (a range has two ends)
            return f"{call.name} gives two numbers: print 'A to B', or ask for .low or .high"
        return list(oriented)
    before = bound.before.rstrip()
    if call.part == "low":
        if not (_AT_LEAST.search(before) or _LOW_END.search(before) or _RANGE_GOES_ON.match(bound.after)):
            return "the least of several cells is printed: say 'at least'"
        return [oriented[0]]
    if not (_UP_TO.search(before) or _AT_MOST.search(before)):
        return "the greatest of several cells is printed: say 'up to'"
    return [oriented[-1]]


def _differs(printed: Printed, value: Decimal, unit: str, before: str, said: str) -> tuple[Verdict, str] | None:
    """Return why ``value`` in ``unit`` is not what is printed; None where it is."""
    shown = printed.unit
    if shown is None and unit == "x" and not re.search(r"speed-?up|ratio|factor|times|geomean|mean", said, re.IGNORECASE):
        return Verdict.REJECTED, f"{printed.text} has no unit, the query's is {unit}"
    if shown is None and unit not in {"x", ""} | {"cells", "positions"}:
        return Verdict.REJECTED, f"{printed.text} has no unit, the query's is {unit}"
    converted = convert(value, unit, shown or unit)
    if converted is None:
        return Verdict.FALSE, f"the sentence prints {shown}, the query gives {unit or 'a number without a unit'}"
    low, high = printed.low, printed.high
    if not printed.stands_for(converted):
        return Verdict.FALSE, f"{printed.text} stands for [{low:f}, {high:f}), the lake gives {_short(converted)}"
    edge = before.rstrip()
    wrong = (
        (_AT_LEAST.search(edge) and converted < printed.value)
        or (_OVER.search(edge) and converted <= printed.value)
        or (_AT_MOST.search(edge) and converted > printed.value)
        or (_UNDER.search(edge) and converted >= printed.value)
    )
    if wrong:
        return Verdict.FALSE, f"the lake gives {_short(converted)}, which is not '{' '.join(edge.split()[-2:])} {printed.text}'"
    return None


def _source(call: Call, table: str) -> str:
    """Return the table macro that shows the rows behind ``call``."""

    def literal(value: str | None) -> str:
        return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

    tail = f"{literal(call.get('cells'))}, the_mode := {literal(call.get('mode'))}, the_device := {literal(call.get('device_name'))})"
    if table == "claim_cells":
        return f"claim_cells({tail}"
    if table == "claim_times":
        return f"claim_times({literal(call.get('entrant'))}, {tail}"
    return f"claim_pairs({literal(call.get('entrant'))}, {literal(call.get('opponent') or call.get('rivals'))}, {tail}"


def _points(call: Call) -> str:
    def literal(value: str | None) -> str:
        return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

    return (
        f"claim_points({literal(call.get('entrant'))}, {literal(call.get('opponent'))}, "
        f"the_cells := {literal(call.get('cells'))}, the_metric := {literal(call.get('metric_name'))})"
    )


def _race_policy(text: str) -> dict[str, Any]:
    """The race section of a policy's text; a text that cannot be read is like no other."""
    try:
        section = tomllib.loads(text).get("race", {})
    except tomllib.TOMLDecodeError:
        return {"unreadable": text}
    return dict(section) if isinstance(section, dict) else {"unreadable": text}


def _short(value: Decimal) -> str:
    return f"{value:.5g}" if abs(value) < 10**5 else f"{value:.0f}"  # noqa: PLR2004
