"""Why the lake says what it says: stale evidence, missing evidence, and the cell that contradicts a claim."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from checks.claims import scope
from checks.claims.lexicon import Lexicon
from checks.claims.macros import MACROS, Call
from checks.claims.model import Verdict
from checks.claims.sandbox import Row, Sandbox


@dataclass(frozen=True)
class Outcome:
    """A verdict with its reason and the rows that it rests on."""

    verdict: Verdict
    reason: str
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Looks behind a typed call; ``policy`` is the text of today's policy, None where there is none."""

    sandbox: Sandbox
    lexicon: Lexicon
    policy: str | None = None

    def stale(self, call: Call) -> str | None:
        """Return why evidence that is there no longer counts: it was measured under another policy."""
        if self.policy is None or call.macro.domain != "race" or call.macro.evidence == "published":
            return None
        if self._changed_policy("comparable_cells") is None:
            return None  # of no cell at all, asked once; so of none of these
        return self._changed_policy(_source(call, "claim_cells"))

    def _changed_policy(self, cells: str) -> str | None:
        """Return how the policy of some row of ``cells`` differs from today's, None where none does."""
        today = _race_policy(self.policy or "")
        policies = self.sandbox.rows(
            f"SELECT DISTINCT c.policy_sha256, p.policy_toml FROM {cells} c "
            "LEFT JOIN policies p ON p.policy_sha256 = c.policy_sha256 ORDER BY ALL"
        )
        for sha256, text in policies:
            then = _race_policy(text) if text else None
            if then is not None and then != today:
                key = next(k for k in sorted({*then, *today}) if then.get(k) != today.get(k))
                return f"stale: measured under the policy {sha256[:8]}, in which race.{key} is another than today"
        return None

    def unknown(self, call: Call, rows: tuple[Row, ...]) -> Outcome:
        """Why a macro gives NULL: a cell that is there but cannot be judged makes the claim stale, hence false."""
        if call.macro.evidence == "published":
            return self._unknown_published(call, rows)
        if "cells" in call.macro.parameters:
            return self._unknown_race(call, rows)
        return Outcome(Verdict.UNJUDGED, self._nothing_known(call), rows)

    def _unknown_published(self, call: Call, rows: tuple[Row, ...]) -> Outcome:
        if call.name != "published_beats":
            return Outcome(Verdict.UNJUDGED, f"the lake holds no evidence for {call.sql()[7:]}", rows)
        found = self.sandbox.rows(f"SELECT count(DISTINCT cell_key) FROM {_points(call)}")[0][0]
        return Outcome(
            Verdict.UNJUDGED,
            f"published figures cover {found} of {call.get('expected') or 'an unknown number of'} cells, and support it there"
            if found
            else "no published figures cover it",
            rows,
        )

    def _unknown_race(self, call: Call, rows: tuple[Row, ...]) -> Outcome:
        if call.name in {"wins", "wins_count", "cells"} and not call.get("rivals"):
            reasons = self.sandbox.rows(
                f"SELECT cell_id, timing_mode, outcome_text FROM {_source(call, 'claim_cells')} "
                "WHERE NOT decisive ORDER BY ALL LIMIT 1"
            )
        else:
            table = (
                "claim_pairs" if "opponent" in call.macro.parameters or call.get("rivals") else "claim_times"
            )
            reasons = self.sandbox.rows(
                f"SELECT cell_id, timing_mode, reason FROM {_source(call, table)} "
                "WHERE reason IS NOT NULL ORDER BY ALL LIMIT 1"
            )
        if reasons:
            cell, mode, reason = reasons[0]
            return Outcome(Verdict.FALSE, f"stale: {cell} ({mode}) is {reason}", rows)
        several = len(scope.selected(call, self.lexicon))
        if several > 1:
            return Outcome(
                Verdict.REJECTED,
                f"{call.name} is about one cell and mode, the query selects {several}{_over_several(call)}",
                rows,
            )
        return Outcome(Verdict.UNJUDGED, f"the lake holds no evidence for {call.sql()[7:]}", rows)

    def _nothing_known(self, call: Call) -> str:
        """Why a macro of the gate, of decode or of served engines gives NULL."""
        domain = call.macro.domain
        what = {"gate": "the gate", "decode": "decode in a model", "serving": "served engines"}[domain]
        places = self.lexicon.places.get(domain, frozenset())
        if not places:
            return f"the lake holds nothing of {what}"
        for at, parameter in enumerate(("model_name", "device_name")):
            values = sorted({place[at] for place in places})
            given = call.get(parameter)
            if given is None and len(values) > 1:
                return f"{what} has several of them, {', '.join(values)}: give {parameter} := one"
            if given is not None and given not in values:
                return f"{what} knows no {given}: there is {', '.join(values)}"
        if domain == "serving":
            return self._no_serving(call)
        known = sorted(
            self.lexicon.configurations
            if domain == "gate"
            else (r[0] for r in self.sandbox.rows("SELECT DISTINCT config FROM decode_steps"))
        )
        absent = [n for n in call.everybody if n not in known and "*" not in n]
        if absent:
            return f"{what} knows no {absent[0]}: there are {', '.join(known)}"
        return f"{what} has {' and '.join(call.everybody)} refused, void, not in one run, or repeated less often than the policy asks"

    def _no_serving(self, call: Call) -> str:
        load = call.get("concurrency")
        for engine in (call.get("entrant"), call.get("opponent")):
            if engine is None:
                continue
            known = [
                str(row[0])
                for row in self.sandbox.rows(
                    "SELECT DISTINCT max_concurrency FROM serving_entrants WHERE evidence = 'measured' "
                    f"AND engine = {_literal(engine)} AND max_concurrency IS NOT NULL ORDER BY 1"
                )
            ]
            if not known:
                return f"no served run of {engine} was measured and passed"
            if load not in known:
                return f"{engine} was not served at concurrency {load}, only at {', '.join(known)}"
        if call.get("opponent"):
            reasons = self.sandbox.rows(
                f"SELECT reason FROM serving_pairs WHERE evidence = 'measured' AND max_concurrency = {load} "
                f"AND engine = {_literal(call.get('entrant'))} AND rival_engine = {_literal(call.get('opponent'))} "
                "AND reason IS NOT NULL ORDER BY reason LIMIT 1"
            )
            return reasons[0][0] if reasons else f"no metric of served engines is {call.get('metric_name')}"
        if call.name == "cost_per_m_output_tokens":
            return f"the lake has no single price for {call.get('entrant')}"
        return f"{call.get('entrant')} was served in several versions or settings at concurrency {load}"

    def misspelt(self, names: Iterable[str]) -> str:
        """Return which known names the unknown ones of ``names`` may be meant for, as the end of a sentence."""
        meant = [(name, self.lexicon.meant(name)) for name in names]
        return "".join(f"; did you mean '{m}' where the query says '{name}'?" for name, m in meant if m)

    def contradiction(self, call: Call) -> str:
        """The cell that contradicts a comparison the most."""
        if call.macro.evidence == "published":
            row = self.sandbox.rows(
                f"SELECT compared, against, speedup, cell_key FROM {_points(call)} "
                f"WHERE faster IS DISTINCT FROM '{call.get('entrant')}' ORDER BY speedup, cell_key, compared LIMIT 1"
            )
            if row:
                metric, rival, speedup, key = row[0]
                return f"published figures contradict it: {rival} is ahead by {metric} ({1 / speedup:.3f}x, {key})"
            return "published figures contradict it"
        if call.macro.domain in {"decode", "serving"}:
            speedup = self.sandbox.rows(call.sql(f"{call.macro.domain}_speedup"))[0][0]
            ahead, behind = call.get("entrant"), call.get("opponent")
            shown = "" if speedup is None else f" ({ahead} against {behind} is {speedup:.3f}x)"
            return f"the repeats of {ahead} are not all ahead of those of {behind}{shown}"
        if call.name in {"beats", "ties"} or call.get("rivals"):
            condition = "level" if call.name == "ties" else "beaten"
            row = self.sandbox.rows(
                f"SELECT cell_id, timing_mode, against, speedup, lo, hi FROM {_source(call, 'claim_pairs')} "
                f"WHERE NOT {condition} ORDER BY lo, cell_id, timing_mode, against LIMIT 1"
            )
            cell, mode, rival, speedup, lo, hi = row[0]
            return f"{call.get('entrant')} against {rival} is {speedup:.3f}x [{lo:.3f}, {hi:.3f}] in {cell} ({mode})"
        row = self.sandbox.rows(
            f"SELECT cell_id, timing_mode, outcome_text, winner FROM {_source(call, 'claim_cells')} "
            f"WHERE decisive AND NOT coalesce(outcome = 'win' AND '{call.get('entrant')}' IN (winner, house) AND wins_over_all, FALSE) "
            "ORDER BY ALL LIMIT 1"
        )
        if not row:
            return "the wide interval does not clear the tie band in every cell"
        cell, mode, outcome, winner = row[0]
        return f"{cell} ({mode}) is {outcome}" + (f" by {winner}" if winner else "")


def _source(call: Call, table: str) -> str:
    """Return the table macro that shows the rows behind ``call``."""
    tail = f"{_literal(call.get('cells'))}, the_mode := {_literal(call.get('mode'))}, the_device := {_literal(call.get('device_name'))})"
    if table == "claim_cells":
        return f"claim_cells({tail}"
    if table == "claim_times":
        return f"claim_times({_literal(call.get('entrant'))}, {tail}"
    return f"claim_pairs({_literal(call.get('entrant'))}, {_literal(call.get('opponent') or call.get('rivals'))}, {tail}"


def _over_several(call: Call) -> str:
    """Which macros give one number, or both ends, for several cells, as the end of a sentence."""
    others = [
        name
        for name in (f"{call.name}_range", call.name.replace("_us", "_range_us"), f"geomean_{call.name}")
        if name in MACROS and name != call.name
    ]
    return f": name one cell and mode, or use {' or '.join(dict.fromkeys(others))}" if others else ""


def _points(call: Call) -> str:
    return (
        f"claim_points({_literal(call.get('entrant'))}, {_literal(call.get('opponent'))}, "
        f"the_cells := {_literal(call.get('cells'))}, the_metric := {_literal(call.get('metric_name'))})"
    )


@cache
def _race_policy(text: str) -> dict[str, Any]:
    """The race section of a policy's text; a text that cannot be read is like no other."""
    try:
        section = tomllib.loads(text).get("race", {})
    except tomllib.TOMLDecodeError:
        return {"unreadable": text}
    return dict(section) if isinstance(section, dict) else {"unreadable": text}


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def shorten(value: Decimal) -> str:
    """Return five significant digits, or all before the point."""
    return f"{value:.5g}" if abs(value) < 10**5 else f"{value:.0f}"
