"""The words of comparisons: who is compared with whom, in which direction, how much is claimed at once.

A reading is deliberately narrow. What a bound sentence says beyond it (negations, exceptions, "most cells") is not
guessed at: the binding is refused and the sentence has to be written plainly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.claims.lexicon import Lexicon, Mention


class Relation(enum.Enum):
    """What a comparative says of its subject."""

    FASTER = "faster"
    SLOWER = "slower"
    WIN = "wins"  # over everyone
    TIE = "level"
    LEAD = "leads"  # FASTER that has to name its metric
    AS_FAST = "as fast as"  # a speedup, on either side of 1
    AS_LONG = "as long as"  # a ratio of times, on either side of 1
    SPEEDUP = "speedup"  # the noun: of one over another
    WORST = "slowest"
    LOSS = "loses"  # without a rival named
    OTHER = "better"  # a comparison of something that no macro measures


@dataclass(frozen=True)
class Comparative:
    """A comparative at its place; ``transitive``: a contestant behind it is its object without a preposition."""

    relation: Relation
    start: int
    end: int
    text: str
    transitive: bool = False
    passive: bool = False


_IRREGULAR = {
    "beat": "beat|beats|beaten|beating",
    "lead": "lead|leads|led|leading",
    "win": "win|wins|won|winning",
}


def _verbs(*stems: str) -> str:
    """All forms of regular verbs."""
    forms = []
    for stem in stems:
        if stem in _IRREGULAR:
            forms.append(_IRREGULAR[stem])
        elif stem.endswith("e"):
            forms.append(f"{stem}|{stem}s|{stem}d|{stem[:-1]}ing")
        elif re.search(r"(?:ss|sh|ch|x)\Z", stem):
            forms.append(f"{stem}|{stem}es|{stem}ed|{stem}ing")
        else:
            forms.append(f"{stem}|{stem}s|{stem}ed|{stem}ing|{stem}{stem[-1]}ed|{stem}{stem[-1]}ing")
    return "|".join(forms)


_BEATERS = _verbs(
    "beat", "outperform", "outpace", "outdistance", "outclass", "outstrip", "outrank", "outdo", "surpass", "defeat",
    "exceed", "eclipse", "overtake", "trump", "crush", "demolish", "thrash", "dominate", "undercut", "outmatch", "leapfrog",
    "trounce", "out-perform",
) + "|outruns?|outran|outrunning|outdoes|outdid|overtook|overtakes|edges? (?:out|past)|pulls? ahead of|bests|bested|tops|topped|smokes"  # fmt: skip
_TRAILERS = (
    r"lags? behind|lagged behind|falls? behind|fell behind|loses? (?:out )?(?:to|against)|lost (?:out )?(?:to|against)|"
    + _verbs("trail", "lag")
)
_QUICK = r"faster|quicker|speedier|swifter|fleeter"
_SLOW = r"slower|more slowly|sluggisher"
_MORE = r"(?:higher|better|greater|superior|more)"
_LESS = r"(?:lower|less|shorter|smaller|fewer)"

# Rates that are better higher, and times that are better lower, of served engines and of decode.
_RATE = r"(?:[\w-]+ ){0,2}?(?:throughput|goodput|tokens? (?:per|a|each) second|tokens?/s|tok/s|(?:decode|token|output|generation) (?:rate|speed))"
_WAIT = r"(?:[\w-]+ ){0,2}?(?:ttft|time[- ]to[- ](?:the )?first[- ]token|latency|latencies|response times?)"

# Tried in this order at each place; the longest context first.
_PATTERNS: tuple[tuple[Relation, str, bool], ...] = (
    (Relation.SLOWER, r"not as fast as|less fast", False),
    (Relation.AS_FAST, r"as (?:fast|quick|quickly|speedy) as|(?:the )?speed of", False),
    (Relation.AS_LONG, r"as long as|as slow as|(?:takes?|took|needs?|needed|is|has)\s+(?:\S+ ?(?:x|times)?\s+)?(?:about |roughly )?(?:the )?(?:time|latency|runtime|duration) of", False),
    (Relation.TIE, rf"{_verbs('tie')}|tying|(?:is|are|was|were|runs?|draws?) (?:level|even|equal|on par|neck and neck|equally (?:fast|quick|good|slow))(?: with)?|level with|on par with|at parity with|neck and neck|equals|{_verbs('match')}", True),
    (Relation.FASTER, rf"{_QUICK}|ahead of|ahead|in front of|in front|superior to|ha(?:s|ve) the (?:edge|advantage|upper hand)(?: over| on)?|(?:an )?(?:edge|advantage) over|takes? {_LESS} time|needs? {_LESS} time|in {_LESS} time|lower latency|shorter time|improves? (?:on|upon)|wins? (?:over|against)|won (?:over|against)|victory over|victorious over|comes? out ahead|(?:in|with) a fraction of the time|gains? (?:on|over)|cuts?|shaves?|saves?|{_MORE} {_RATE}|{_LESS} {_WAIT}", False),
    (Relation.FASTER, rf"(?:{_BEATERS})|left behind|(?:leaves?|left|leaving)(?= (?:[\w-]+ ){{1,3}}(?:behind|in the dust|standing))", True),
    (Relation.SLOWER, rf"{_SLOW}|behind|inferior to|takes? (?:longer|more time)|needs? (?:longer|more time)|longer than|higher latency|{_LESS} {_RATE}|(?:higher|longer|greater|worse) {_WAIT}", False),
    (Relation.SLOWER, rf"(?:{_TRAILERS})", True),
    (Relation.LEAD, r"leads?(?! to\b)|led(?! to\b)|leading|(?:takes?|holds?|has|have) the lead(?: over)?|lead over", True),
    (Relation.WIN, r"wins?|won|winning|fastest|quickest|speediest|unbeaten|unbeatable|unrivalled|unrivaled|unmatched|undefeated|second to none|comes? (?:in )?first|came first|takes? first place|in first place|first place|(?:the )?(?:overall )?(?:winner|champion|leader|victor)|takes? the crown|tops the (?:table|field)|state[- ]of[- ]the[- ]art|sets? the pace|best|sweeps?|swept|victorious|victory|victories|prevails?|triumphs?|number one|record[- ](?:fast|low|high|time|speed|breaking)|sets? (?:a|the) record", False),
    (Relation.WORST, r"slowest|worst|last place|comes? last|came last", False),
    (Relation.LOSS, r"loses?|lost|losing|loser|defeated|outclassed", False),
    (Relation.SPEEDUP, r"speed-?ups?|speeds? up|sped up|acceleration|accelerates?|faster-than", False),
    (Relation.OTHER, r"better|worse|cheaper|costlier|comes? close to|keeps? (?:up|pace)(?: with)?|catch(?:es)? up(?: with)?|hold a candle to|[<>](?= ?[A-Za-z])|(?:reduc|lower|boost|increas|improv)\w*(?= (?:[\w-]+ ){0,3}?(?:time|latency|throughput|runtime|costs?|speed|bandwidth)\b)|superior|inferior|more efficient|less efficient|more accurate|less accurate|leaner|lighter|heavier|more expensive|double[sd]?|halve[sd]?|triple[sd]?|twice|thrice|half (?:the|of|what|as)|at (?:a |one )?(?:half|third|quarter|fifth|tenth|fraction) (?:of|the)|costs? (?:less|more|half|a fraction|a third|a quarter|as much)|costs? the same|(?:more|less|fewer) (?:[\w-]+ ){0,3}?than(?= [A-Za-z])|undercuts?", False),
)  # fmt: skip
_COMPARATIVE = re.compile(
    "|".join(rf"(?P<r{i}>(?<![\w-])(?:{p})(?![\w-]))" for i, (_, p, _) in enumerate(_PATTERNS)), re.IGNORECASE
)
_PASSIVE = re.compile(r"(?:is|are|was|were|been|being|gets?|got)(?: \w+ly)? \Z", re.IGNORECASE)
_BY = re.compile(r"\s*(?:\w+ly )?by\b", re.IGNORECASE)
# Nouns and set phrases of the field in which such a word compares nothing.
_NOT_COMPARATIVE = re.compile(
    r"ahead[- ]of[- ]time|leads? to\b|behind (?:a|an|the) (?:passing |failing )?(?:gate|click|flag|option|lock|api|interface)"
    r"|at best|best (?:effort|practice)s?|tie band|topmost|on top of|at the top|record(?:s|ed|ing)? (?:lake|run|race|measurement)"
    r"|leading (?:zero|space|dimension|underscore)s?|best[- ]of|cuts? (?:off|out|the list)|track record|for the record|winners? (?:table|view|matrix|logic|query)"
    r"|per[- ]record|winners\.sql|behind (?:it|them|each|every|that|this|which)\b|worst[- ]case|best[- ]case|exceeds? (?:the )?(?:limit|int32|memory|timeout)"
    r"|match(?:es|ed|ing)? (?:the )?(?:pattern|regex|glob|name|expression|schema|reference|layout|shape|version)s?|lost (?:sample|row|line)s?"
    r"|means (?:that )?this (?:one|contestant) is (?:faster|slower)",
    re.IGNORECASE,
)

# What a gate finds, said without its figures.
_SAMENESS = re.compile(
    r"\b(?:(?:dis)?agrees? (?:more|less|with|at|everywhere)|(?:bit-?|bitwise |token-?)?(?:identical|exact) (?:to|with) (?:the )?(?:stock|transformers)"
    r"|(?:same|equal) (?:next )?(?:tokens?|text|answers?|outputs?|decisions?|choices?) as (?:the )?(?:stock|transformers)"
    r"|lossless(?:ly)?|(?:costs?|loses?) (?:no|any) (?:accuracy|quality)|(?:no|without(?: any)?) loss of (?:accuracy|quality)"
    r"|(?:pass|fail)(?:es|ed|s)? (?:the|its|every|our) gate)\b",
    re.IGNORECASE,
)

_NEGATION = re.compile(
    r"\b(?:not|never|no longer|nowhere|nobody|none|nothing|neither|nor|without|cannot|hardly|barely|rarely|seldom|scarcely|fail(?:s|ed)? to"
    r"|unable|false|untrue|wrong|myth|contrary|doubt|doubtful|unlikely|instead of|rather than|far from|anything but|no)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NO_NEGATION = re.compile(r"no matter|without exception|second to none|none of the others?", re.IGNORECASE)
_EXCEPTION = re.compile(
    r"\b(?:only|solely|alone|except|excepting|excluding|exclud\w+|other than|apart from|aside from|unless|save for|all but|barring|exclusively"
    r"|used to|formerly|previously|once)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\b(?:most|mostly|mainly|largely|nearly all|almost (?:all|always|every)|usually|often|generally|typically|sometimes|occasionally|some"
    r"|several|many|few|majority|half of|a third of|in general|by and large|on the whole)\b",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"\b(?!1 )(\d+|two|three|four|eight|several|multiple|many)[ -](?:gpus?|cards|devices|[abh]\d{2,3}s|nodes?|machines)\b|multi-?gpu|multi-?node|tensor[- ]parallel",
    re.IGNORECASE,
)
_STATISTIC = re.compile(
    r"\b(?:p\d{2}(?:\.\d)?|\d{2}th percentile|percentile|worst[- ]case|best[- ]case|mean|average[sd]?|on average|tail|peak|minimum|maximum|geomean|geometric mean)\b",
    re.IGNORECASE,
)
_GEOMEAN = re.compile(r"\b(?:geomean|geometric(?:al)? mean|geometrically)\b", re.IGNORECASE)
_MAGNITUDE = re.compile(
    r"\b(?:twice|double[sd]?|thrice|triple[sd]?|treble|quadruple[sd]?|half|halve[sd]?|a third|two-fold|twofold|threefold|tenfold|orders? of magnitude"
    r"|(?:a|by a|one) (?:third|quarter|fifth|tenth)|factor of \w+|(?:two|three|four|five|six|seven|eight|nine|ten|hundred|several|many) times|one and a half)\b",
    re.IGNORECASE,
)
_ALWAYS = re.compile(
    r"\b(?:always|throughout|everywhere|consistently|invariably|across the board|without exception|in all cases|in every case|in each case|at every one"
    r"|regardless|no matter|each time|every time|ever|whatever|universally|uniformly|unconditionally|under all conditions|at all times|on all counts|overall|in every respect"
    r"|hands down|anywhere|any time|in any case|entire|entirely|whole|complete|completely|full)\b",
    re.IGNORECASE,
)
_RIVALS = r"(?:rivals?|engines?|competitors?|contestants?|others|other|opponents?|librar(?:y|ies)|houses?|implementations?|baselines?|alternatives?|competition|kernels?|one else|thing else|body)"
_EVERY_RIVAL = re.compile(
    rf"\b(?:(?:every|each|all|any|both|either)(?: of)?(?: the| its| our)?(?: \w+){{0,2}} {_RIVALS}|every(?:one|body|thing)(?: else)?|(?:the|its|our) (?:competition|field|others|(?:\w+ )?rivals|competitors|opponents|other \w+)|any(?:one|body|thing)(?: else)?|(?:all|both) (?:of )?(?:them|others)|(?:the )?rest)\b",
    re.IGNORECASE,
)
_DIMENSION_NOUNS = {
    "tokens": r"(?:token counts?|token numbers?|numbers? of tokens|batch(?:es| sizes?)?|sizes?)",
    "routing": r"(?:routings?|(?:routing )?distributions?)",
    "precision": r"(?:precisions?|formats?|dtypes?|data types?|number formats?)",
    "timing_mode": r"(?:(?:timing )?modes?)",
    "device": r"(?:devices?|gpus?|cards?|machines?|accelerators?|hardware)",
    "cells": r"(?:cells?|combinations?|configurations?|cases?|points?|settings?|workloads?)",
}
_WORD = r"[\w-]+"
_PREPOSITION = r"(?:in|at|with|under|for|on|by|to|over|and|of|than|rivals?|engines?)"
_EVERY = r"(?:every one of|every|each of|each|all of|all|any of|any|both of|both|across|whatever|whichever)"
_METRICS = {
    "time": r"times?|latenc(?:y|ies)|runtimes?|speeds?|kernel times?|microseconds?|durations?",
    "throughput": r"throughput|tokens? per second|tokens/s|tok/s|requests? per second|bandwidth|goodput",
    "ttft": r"ttft|time to first token|first[- ]token",
    "cost": r"costs?|price|money|cheap\w*|dollars?|usd",
    "memory": r"memory (?:use|usage|footprint|consumption)|footprint|vram|less memory",
    "accuracy": r"accura\w+|agreement|perplexity|quality",
    "energy": r"energy|power (?:use|draw|consumption)|joules?",
    "serving": r"serv(?:ed|es|ing|er)|end[- ]to[- ]end|e2e",
    "decode": r"decodes|decoded|decod(?:e|ing) (?:speed|rate|throughput)|in[- ]model|generat(?:es|ed|ion)",
}
_METRIC = {name: re.compile(rf"\b(?:{p})\b", re.IGNORECASE) for name, p in _METRICS.items()}
_OBJECT_BEFORE = re.compile(
    r"\b(?:than|over|against|versus|vs\.?|compared (?:with|to)|relative to|in comparison (?:with|to)|with respect to|to|of|as|with|on|behind|front of|ahead of|by)"
    r"(?: (?:both|the|even|either|that of|those of|what|its rivals?|rivals?|stock|engine|engines|library))*[ :(]*\Z",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"; |[,.:]? (?:and|but|while|whereas|yet|although|though|as well as|or) |, | [-\u2013\u2014] | \(",
    re.IGNORECASE,
)
_AND = re.compile(
    r",? ?(?:and|or|nor|as well as|plus|&) (?:over |against |than |both |the |also )*|/| / ", re.IGNORECASE
)
_COMMA = re.compile(r", ?(?:the )?")


def comparatives(text: str) -> list[Comparative]:
    """Return the comparative and superlative words of ``text`` in order, set phrases of the field left out."""
    blocked = [m.span() for m in _NOT_COMPARATIVE.finditer(text)]
    found = []
    for match in _COMPARATIVE.finditer(text):
        if any(a <= match.start() < b for a, b in blocked):
            continue
        for i, (relation, _, transitive) in enumerate(_PATTERNS):
            if match[f"r{i}"]:
                # "is beaten by", and "is beaten" without an agent; "is leading" is none.
                participle = transitive and re.search(
                    r"(?:ed|en|done|run|led|outdid|left behind)\Z", match[0], re.IGNORECASE
                )
                passive = bool(
                    _PASSIVE.search(text[: match.start()]) and (participle or _BY.match(text[match.end() :]))
                )
                found.append(Comparative(relation, match.start(), match.end(), match[0], transitive, passive))
                break
    return found


def sameness(text: str) -> re.Match[str] | None:
    """Return words that say how a contestant's decisions stand to the stock model's: what the gate measures."""
    return _SAMENESS.search(text)


_NOUNS = {Relation.SPEEDUP, Relation.LEAD}


@dataclass(frozen=True)
class Roles:
    """Who stands where around a comparative."""

    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    everyone: bool  # the object is everybody else


def roles(text: str, comparative: Comparative | None, lexicon: Lexicon) -> Roles:
    """Tell the subjects of a comparative from its objects.

    A name behind "than", "over", "against", "compared with" ... is an object wherever it stands; behind a verb such
    as "beats" an object needs no preposition; names joined by "and" share a role. In the passive the agent behind
    "by" is an object too: the subject is beaten.
    """
    subjects: list[str] = []
    objects: list[str] = []
    previous: Mention | None = None
    was_object = False
    for mention in lexicon.mentions(text):
        before = text[: mention.start]
        glue = text[previous.end : mention.start] if previous is not None else ""
        listed = comparative is not None and previous is not None and previous.start >= comparative.end
        if previous is not None and (_AND.fullmatch(glue) or (listed and _COMMA.fullmatch(glue))):
            is_object = was_object
        elif comparative is not None and mention.start >= comparative.end:
            between = text[comparative.end : mention.start]
            direct = comparative.transitive and not re.search(r"\b(?:for|from)\b", between)
            is_object = direct or bool(_OBJECT_BEFORE.search(before))
            if comparative.relation in _NOUNS and re.search(r"\bof (?:the )?\Z", before):
                is_object = False  # "the speedup of A over B"
            if comparative.relation in {Relation.WIN, Relation.LOSS, Relation.WORST} and re.search(
                r"\b(?:is|are|was|were|for|by|of|to|:)\W*(?:the )?\Z", before
            ):
                is_object = False
        else:
            named = _OBJECT_BEFORE.search(before)
            is_object = bool(named) and not re.match(
                r"(?:of|on|by|with|to|as)\b", named[0] if named else "", re.IGNORECASE
            )
        (objects if is_object else subjects).append(mention.name)
        previous, was_object = mention, is_object
    everyone = bool(_EVERY_RIVAL.search(text))
    return Roles(tuple(dict.fromkeys(subjects)), tuple(dict.fromkeys(objects)), everyone)


def beyond(text: str) -> str | None:
    """Return what ``text`` says that no typed macro can prove: a negation, an exception, a vague quantifier."""
    plain = _NO_NEGATION.sub("", text)
    for pattern, why in (
        (_NEGATION, "is a negation: say who is ahead instead"),
        (_EXCEPTION, "says more than the bound comparison proves: name the cells instead"),
        (_VAGUE, "is no number of cells: write 'N of M cells'"),
    ):
        if match := pattern.search(plain):
            return f"'{match[0]}' {why}"
    return None


def cards(text: str) -> str | None:
    """Return words that speak of several cards: every cell of the lake is one card's."""
    match = _CARDS.search(text)
    return match[0] if match else None


def statistic(text: str, *, geomean: bool) -> str | None:
    """Return a statistic that ``text`` names and the macro does not give; all but the geometric mean give medians."""
    if geomean:
        return None if _GEOMEAN.search(text) else "no geometric mean"
    match = _STATISTIC.search(text)
    return match[0] if match else None


def magnitude(text: str) -> str | None:
    """Return a number of times in words ('twice', 'an order of magnitude'): it needs digits and a query."""
    match = _MAGNITUDE.search(text)
    return match[0] if match else None


def always(text: str) -> str | None:
    """Return a word such as 'always' or 'throughout': the claim needs the whole set."""
    text = " ".join(text.split())
    match = _ALWAYS.search(text)
    if match:
        return match[0]
    nouns = "|".join([*_DIMENSION_NOUNS.values(), _RIVALS, r"tokens?|rounds?|house|of them"])
    for found in re.finditer(r"\b(?:every|each|all|any)\b", text, re.IGNORECASE):
        if not re.match(
            rf"(?: of)?(?: the| its| our)?(?: {_WORD}){{0,5}}? (?:{nouns})\b",
            text[found.end() :],
            re.IGNORECASE,
        ):
            return found[0]
    return None


def quantified(text: str) -> set[str]:
    """Return the dimensions of which ``text`` says 'every' or 'all', among them 'cells'."""
    text = " ".join(text.split())
    return {
        name
        for name, noun in _DIMENSION_NOUNS.items()
        if re.search(rf"\b{_EVERY}(?: (?!{_PREPOSITION}\b){_WORD}){{0,3}}? {noun}\b", text, re.IGNORECASE)
    }


def metrics(text: str) -> set[str]:
    """Return the kinds of metric that ``text`` names."""
    return {name for name, pattern in _METRIC.items() if pattern.search(text)}


def clauses(text: str, figures: Sequence[int]) -> list[tuple[int, int]]:
    """Split ``text`` into clauses, each with a comparative or one of the bound ``figures`` (offsets of digits).

    A conjunction or comma begins a clause only if something is said between it and the next one: "128 and 512
    tokens" stays whole.
    """
    separators = list(_SEPARATOR.finditer(text))
    active = sorted([c.start for c in comparatives(text)] + list(figures))
    cuts = [0]
    for i, match in enumerate(separators):
        stop = separators[i + 1].start() if i + 1 < len(separators) else len(text)
        strong = match[0].strip(" ,").lower() in {";", "but", "while", "whereas", "yet", "although", "though"}
        left = any(cuts[-1] <= p < match.start() for p in active)
        right = any(match.end() <= p for p in active)
        at_once = any(match.end() <= p < stop for p in active)
        if left and right and (strong or at_once):
            cuts.append(match.end())
    return [(a, b) for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
