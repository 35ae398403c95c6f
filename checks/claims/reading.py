"""What a clause says, set against the typed macro that binds it: who, in which direction, by which metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.claims import beside
from checks.claims.lexicon import Lexicon
from checks.claims.macros import Call
from checks.claims.plain import CONCURRENCY
from checks.claims.sizes import vague
from checks.claims.wording import (
    Comparative,
    Relation,
    Roles,
    beyond,
    cards,
    comparatives,
    magnitude,
    metrics,
    roles,
    statistic,
)

_MEASURES = {
    "race": {"time"},
    "decode": {"time", "throughput", "decode"},
    "serving": {"time", "throughput", "ttft", "cost", "serving"},
    "gate": {"accuracy"},
}
_BACKWARDS = {Relation.SLOWER, Relation.AS_LONG}


@dataclass(frozen=True)
class Clause:
    """One clause, with what it may leave to the clauses before it.

    Attributes:
        text: Its words.
        start: Where it begins in the sentence.
        before: Texts to take a missing subject, object or comparative from, the nearest first.
        around: Texts to take missing names of cells from, the nearest first.
        labels: In a table: the words of headers, which belong to the clause.
    """

    text: str
    start: int
    before: Sequence[str] = ()
    around: Sequence[str] = ()
    labels: str = ""

    @property
    def said(self) -> str:
        """The clause with its labels."""
        return f"{self.labels}; {self.text}" if self.labels else self.text


@dataclass(frozen=True)
class Reading:
    """A clause that a macro may prove.

    Attributes:
        forward: The number is that of the macro's first contestant over its second; False: the other way round.
        directed: The sentence says that one is faster: the ratio has to be over 1.
        relation: The comparative, None for a macro of one contestant.
    """

    forward: bool = True
    directed: bool = False
    relation: Relation | None = None


def read(call: Call, clause: Clause, lexicon: Lexicon) -> Reading | str:  # noqa: PLR0911
    """Return how ``clause`` is to be read under ``call``, or why the call cannot prove it."""
    macro = call.macro
    own = comparatives(clause.said)
    if why := beyond(clause.said):
        return why
    if why := _metric(call, clause, own) or _foreign(call, clause, lexicon):
        return why
    if not macro.relations:
        return _single(call, clause, lexicon)
    found = own or next((c for t in clause.before if (c := comparatives(t))), [])
    if not found:
        return f"the sentence compares nothing, {call.name} does"
    if macro.unit == "bool" and (word := magnitude(clause.said)):
        return f"'{word}' is a number in words: print it in digits and bind it with '= SELECT speedup(...)'"
    kinds = {c.relation for c in found}
    if len(found) > 1 and (len(kinds) > 1 or not own):
        return f"the clause says more than one thing ({', '.join(repr(c.text) for c in found)}): bind each in a clause of its own"
    comparative = found[0]
    if (
        macro.unit == "cells" and comparative.relation not in macro.relations
    ) or comparative.relation not in macro.relations:
        return f"'{comparative.text}' is not what {call.name} proves{instead(comparative.relation)}"
    who = _roles(comparative, clause, lexicon, own=bool(own))
    if "opponent" in macro.parameters:
        return _pair(call, comparative, who, lexicon)
    return _one_over_all(call, comparative, who, lexicon)


def _metric(call: Call, clause: Clause, found: Sequence[Comparative]) -> str | None:
    said = metrics(clause.said)
    foreign = said - _MEASURES[call.macro.domain]
    if call.macro.evidence == "measured" and foreign:
        return f"the sentence is about {', '.join(sorted(foreign))}, {call.name} measures something else"
    leads = any(c.relation is Relation.LEAD for c in found)
    if leads and not said and "%" not in clause.said.replace("percent", "%"):
        return "'leads' needs a metric: say in what"
    if leads and not said:
        return "'leads' needs a metric: a percentage of what?"
    return None


def _foreign(call: Call, clause: Clause, lexicon: Lexicon) -> str | None:  # noqa: PLR0911
    """Return what the clause speaks of and the macro does not: strangers, cards, statistics, configurations."""
    said, domain = clause.said, call.macro.domain
    if call.macro.evidence == "published":
        return None
    if name := lexicon.stranger(said):
        return f"the lake knows no {name}"
    if word := statistic(said, geomean=call.name == "geomean_speedup"):
        return f"the sentence says '{word}', {call.name} gives something else"
    if domain == "race" and (word := cards(said)):
        return f"'{word}': every cell of the lake is measured on one card"
    if domain == "race" and (word := vague(said)):
        return f"'{word}' is no number of tokens"
    if domain == "serving" and {n for pair in CONCURRENCY.findall(said) for n in pair if n} != {
        call.get("concurrency")
    }:
        return f"the sentence has to say concurrency {call.get('concurrency')}, and no other"
    return beside.mismatch(call, said, clause.around, lexicon) if domain in lexicon.places else None


def _single(call: Call, clause: Clause, lexicon: Lexicon) -> Reading | str:
    """A macro of one contestant: the clause names it, and nobody else without saying which is meant."""
    entrant = call.get("entrant")
    if entrant is None:
        return Reading()
    texts = [clause.said, *clause.before]
    names = next((n for t in texts if (n := list(dict.fromkeys(m.name for m in lexicon.mentions(t))))), [])
    if not names:
        return f"the sentence has to name {entrant}"
    if set(names) != {entrant}:
        return f"the sentence is about {', '.join(names)}, the query about {entrant}"
    return Reading()


def _roles(comparative: Comparative, clause: Clause, lexicon: Lexicon, *, own: bool) -> Roles:
    """Who is compared; what the clause leaves out stands in the clauses before it."""
    who = roles(clause.said, comparative if own else None, lexicon)
    if not own:  # "... and 1.1x at 512 tokens": everything said before goes on
        previous = next((t for t in clause.before if comparatives(t)), "")
        earlier = roles(previous, comparative, lexicon)
        return Roles(
            who.subjects or earlier.subjects, who.objects or earlier.objects, who.everyone or earlier.everyone
        )
    if who.subjects:
        return who
    for text in clause.before:
        before = comparatives(text)
        earlier = roles(text, before[0] if before else None, lexicon)
        if earlier.subjects:
            return Roles(earlier.subjects, who.objects, who.everyone)
    return who


def _pair(call: Call, comparative: Comparative, who: Roles, lexicon: Lexicon) -> Reading | str:  # noqa: PLR0911
    """A macro of two contestants: exactly these two are named, on the sides that the comparative gives them."""
    first = set(call.names("entrant"))
    second = set(call.names("opponent"))
    relation = comparative.relation
    subjects, objects = set(who.subjects), set(who.objects)
    if not second:  # published figures against everyone
        return _one_over_all(call, comparative, who, lexicon)
    if who.everyone:
        objects |= _rivals(first, lexicon)
        if objects != second:
            return f"the sentence means every rival ({_names(objects)}), the query {_names(second)}"
    if not subjects or (not objects and relation is not Relation.TIE):
        return f"the sentence has to name both {_names(first)} and {_names(second)}"
    if relation is Relation.TIE:
        if subjects | objects != first | second:
            return f"the sentence compares {_names(subjects | objects)}, the query {_names(first | second)}"
        return Reading(relation=relation)
    backwards = (relation in _BACKWARDS) != comparative.passive
    fast, slow = (objects, subjects) if backwards else (subjects, objects)
    directed = relation in {Relation.FASTER, Relation.SLOWER, Relation.LEAD}
    if (fast, slow) == (first, second):
        return Reading(forward=True, directed=directed, relation=relation)
    if (fast, slow) == (second, first):
        if call.macro.unit in {"bool", "cells"}:
            return f"the sentence has {_names(fast)} ahead of {_names(slow)}, the query the other way round"
        return Reading(forward=False, directed=directed, relation=relation)
    return f"the sentence compares {_names(fast)} with {_names(slow)}, the query {_names(first)} with {_names(second)}"


def _one_over_all(call: Call, comparative: Comparative, who: Roles, lexicon: Lexicon) -> Reading | str:
    """Wins and its count: the subject is the winner, the rivals are all of them unless the query names some."""
    winner = set(call.names("entrant"))
    rivals = set(call.names("rivals"))
    subjects, objects = set(who.subjects), set(who.objects)
    if (comparative.relation in _BACKWARDS) != comparative.passive:
        subjects, objects = objects, subjects
    if subjects != winner:
        return f"the sentence has {_names(subjects) or 'nobody'} ahead, the query {_names(winner)}"
    if rivals and (objects != rivals or who.everyone):
        said = _names(objects) if objects else "names no rivals and so means all of them"
        return f"the query is about {_names(rivals)}, the sentence {said}"
    everybody = _rivals(winner, lexicon)
    if not rivals and not objects <= everybody:
        return f"{_names(objects - everybody)} is no required rival: wins says nothing about it; name it with rivals :="
    return Reading(directed=True, relation=comparative.relation)


def _rivals(own: set[str], lexicon: Lexicon) -> set[str]:
    """Required contestants of the other houses."""
    houses = {lexicon.houses.get(name, name) for name in own} | own
    return {c for c in lexicon.required if lexicon.houses.get(c, c) not in houses}


def _names(names: set[str]) -> str:
    return " and ".join(sorted(names))


def instead(relation: Relation) -> str:
    """Return which macro proves a comparative, as the end of a sentence."""
    macro = {
        Relation.FASTER: "beats, or wins for all rivals",
        Relation.SLOWER: "beats with the contestants swapped",
        Relation.LEAD: "beats",
        Relation.WIN: "wins",
        Relation.TIE: "ties",
        Relation.SPEEDUP: "speedup",
        Relation.AS_FAST: "speedup, or ties without a number",
        Relation.AS_LONG: "ratio",
    }.get(relation)
    return f"; use {macro}" if macro else "; no macro measures that, say who is faster or slower"
