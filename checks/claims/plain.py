"""The words that a sentence about the gate, decode inside a model or served engines may consist of.

A figure of these has no cell that a sentence would have to name, and countless ways to be told of something else: of
another text, a batch, a card, a user, an hour. So the words are listed that leave it what it is, and any other word or
number is refused by its name; what is true beside the figure is said in a sentence of its own.
"""

from __future__ import annotations

import re

from checks.claims.lexicon import Lexicon
from checks.claims.macros import Call
from checks.claims.wording import comparatives


def _list(words: str) -> frozenset[str]:
    return frozenset(words.split())


CONCURRENCY = re.compile(
    r"concurrency(?: of| =|:)? (\d+)|(\d+) (?:concurrent|parallel|clients?|users?|requests? at (?:a time|once))",
    re.IGNORECASE,
)
_LOAD = re.compile(
    rf"{CONCURRENCY.pattern}(?:(?:(?<=concurrent)|(?<=parallel)) (?:requests?|clients?|users?|sequences?|streams?))?(?: in parallel| at once| at a time)?",
    re.IGNORECASE,
)
_COMMON = _list(
    # grammar
    "a an the of in on at to with by for from as is are was were be been has have had it its this that these those than"
    " over against versus vs and while whereas but where which whose here there so thus then therefore hence also too we our"
    " ours us i e namely does do did can both beside besides under itself per about out into when"
    # what was done, and where it stands
    " measured measure measures measurement measurements benchmark benchmarks benchmarked result results run runs ran"
    " recorded record records lake reported report reports shown shows show found finds observed according table figure"
    " figures data evidence gives give gave given gets get got reaches reach reached reaching amounts comes stands stood"
    " lies now today currently experiment experiments test tests tested"
    " value values median name named called compared comparison relative respect terms regard clearly measurably still"
    " respectively again device machine configuration configurations implementation"
    " implementations setting model models one single same"
)
_WORDS: dict[str, frozenset[str]] = {
    "gate": _list(
        "agree agrees agreed agreeing agreement stock transformers choice choices decision decisions next-token token"
        " tokens position positions top-1 percent share shares percentage rate rates candidate candidates reference kernel"
        " kernels pick picks picked make makes made choose chooses chose gate correctness prediction predictions predicted judged checked evaluated examined number"
        " count counted beside dispatch between range ranges through across match matches matched matching greedy"
        " modes mode versions version precision yardstick control window windows"
    ),
    "decode": _list(
        "decode decodes decoded decoding generate generates generated generating generation inside within in-model token"
        " tokens second seconds s rate rates speed speeds throughput batch size concurrency sequence sequences step steps"
        " writes write produces produce emits emit achieves achieve achieving manages sustains delivers yields output"
        " time times engine kernel kernels prompt after greedy greedily model's rate's"
    ),
    "serving": _list(
        "serve serves served serving server servers engine engines throughput output generated tokens token second seconds s"
        " rate rates concurrency load delivers deliver yields yield sustains sustain achieves achieve provides handles"
        " produces produce generates generate emits time first first-token ttft latency"
        " cost costs costing price prices priced million m 1m output-token terms speed speeds"
    ),
}  # fmt: skip
# Words that belong to some macros of their domain alone.
_NOT_OF = {
    "cost_per_m_output_tokens": _list(
        "per-second time first first-token ttft latency throughput rate speed"
    ),
    "ttft_ms": _list(
        "cost costs price prices million usd dollars output generated throughput"
    ),
    "tokens_per_second": _list(
        "cost costs price prices million usd dollars time first first-token ttft latency"
    ),
    "positions": _list(
        "agree agrees agreed agreeing agreement match matches matched matching percent"
    ),
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+(?:['\u2019-][A-Za-z0-9]+|[A-Za-z0-9]+)*|\d+(?:[.,]\d+)*\w*")
# Whether these hold is decided by the number behind them, which is blanked: two spaces.
_BOUNDS = re.compile(
    r"\b(?:(?:no |not )?(?:more|less|fewer|greater|better) than|at least|at most|over|above|below|under|just(?: over| under)?|nearly|almost"
    r"|about|around|some|roughly|approximately|between|from|up to|as much as|as low as|as little as|to|and|through)[ (~$]*(?= {2})",
    re.IGNORECASE,
)
_UP_TO = re.compile(r"\b(?:up to|as much as|as low as|as little as|from)[ (~$]*(?= {2})", re.IGNORECASE)
# A share is one of positions; of a configuration's own name with nothing but stock's.
_SHARE_OF = re.compile(r" {2,}of (?:all |the |its |of )*(?P<noun>[A-Za-z-]+)")
_OF_POSITIONS = _list(
    "position positions decision decisions choice choices token tokens prediction predictions next-token"
)
_COMPARED_WITH = re.compile(r"\b(?:with|to|beside|against|and)(?: the)? \Z", re.IGNORECASE)
_ALL_POSITIONS = re.compile(r"\ball (?:of )?(?:the |its )?(?=positions|decisions)", re.IGNORECASE)
_EVERY_CONFIGURATION = re.compile(
    r"\b(?:all|every|each|any)(?: one)?(?: of)?(?: the| its| our)? (?=(?:\w+ )?(?:configurations?|candidates?|kernels?)\b)",
    re.IGNORECASE,
)
_ONE_AT_A_TIME = re.compile(r"\b(?:concurrency|batch(?: size)?)(?: of| =|:)? (?:1|one)\b", re.IGNORECASE)
_PROMPT = re.compile(
    r"\bprompts?(?: of|:)? ([\d,]+)(?: tokens)?|\b([\d,]+)(?:-| )tokens? (?=prompts?\b)", re.IGNORECASE
)
_LAYERS = re.compile(r"\b(\d+) layers\b", re.IGNORECASE)
_MILLION = re.compile(r"\b(?:1 |one )(?=million\b)", re.IGNORECASE)


def foreign(call: Call, said: str, lexicon: Lexicon) -> str | None:
    """Return why ``said``, a clause whose figures are blanked, says more than ``call`` gives; None where it does not."""
    domain = call.macro.domain
    text = _without_names(call, said, lexicon)
    if call.macro.relations:
        for c in reversed(comparatives(text)):
            text = text[: c.start] + " " + text[c.end :]
    if not call.macro.ranged:
        for match in _UP_TO.finditer(text):
            return f"'{match[0].strip()}' is an end of a range, {call.name} is one value"
    text = _BOUNDS.sub(" ", text)
    if domain == "gate":
        text = _ALL_POSITIONS.sub(" ", text)
        if lexicon.configurations_of(call.get("configuration") or "") == lexicon.configurations_of("*"):
            text = _EVERY_CONFIGURATION.sub(" ", text)
    elif domain == "decode":
        text = _ONE_AT_A_TIME.sub(" ", text)
    else:
        text = _MILLION.sub(" ", _LOAD.sub(" ", text))
    text = _without_facts(call, text, lexicon)
    if call.macro.unit == "%" and (of := _SHARE_OF.search(said)) and of["noun"].lower() not in _OF_POSITIONS:
        return f"{call.name} is a share of positions, not of {of['noun']}"
    for word in _WORD.findall(text):
        if not _known(word, call, lexicon):
            return (
                f"'{word}' says more than {call.name} gives: leave it out, or say it in a sentence of its own"
            )
    return None


def _without_names(call: Call, said: str, lexicon: Lexicon) -> str:
    """The clause without the contestants that it names and, of a served engine, without the version that was served."""
    text = said
    for mention in reversed(lexicon.mentions(said)):
        end = mention.end
        version = re.match(r"(?: version)? v?(\d+(?:\.\w+)+)", text[end:])
        if version and (mention.name, version[1]) in lexicon.versions:
            end += version.end()
        if text[end:].startswith(("'s", "\u2019s")):
            end += 2
        compared = _COMPARED_WITH.search(text[: mention.start]) and not mention.name.startswith("stock")
        if call.macro.domain != "gate" or (mention.name.startswith(("dispatch", "stock")) and not compared):
            text = text[: mention.start] + " " + text[end:]
    return text


def _without_facts(call: Call, text: str, lexicon: Lexicon) -> str:
    """The clause without what the lake says of the model and the prompt that were measured."""
    facts = lexicon.facts.get((call.macro.domain, _place(call, lexicon, 0)), frozenset())
    kinds = [f for f in facts if f.isalpha()]
    if kinds:
        text = re.sub(rf"\b(?:{'|'.join(kinds)})(?:[ -]weights)?\b", " ", text, flags=re.IGNORECASE)
    text = _LAYERS.sub(lambda m: " " if f"{m[1]} layers" in facts else m[0], text)
    return _PROMPT.sub(
        lambda m: " " if f"{(m[1] or m[2]).replace(',', '')} prompt tokens" in facts else m[0], text
    )


def _place(call: Call, lexicon: Lexicon, at: int) -> str:
    """The model (0) or the device (1) that the call names, or takes because it is the only one."""
    values = {place[at] for place in lexicon.places[call.macro.domain]}
    return call.get(("model_name", "device_name")[at]) or (min(values) if len(values) == 1 else "")


def _known(word: str, call: Call, lexicon: Lexicon) -> bool:
    """Whether ``word`` leaves the figure what it is."""
    low = word.lower().replace("\u2019", "'").removesuffix("'s").removesuffix("'")
    allowed = _COMMON | _WORDS[call.macro.domain]
    if call.name in _NOT_OF:
        allowed -= _NOT_OF[call.name]
    allowed |= _own_words(call, lexicon)
    return low in allowed or ("-" in low and all(p in allowed and not p.isdigit() for p in low.split("-")))


def _own_words(call: Call, lexicon: Lexicon) -> set[str]:
    """The words of the configurations, the model and the device that the call names or takes."""
    domain = call.macro.domain
    names = [*call.everybody]
    if domain == "gate":
        names += lexicon.configurations_of(call.get("configuration") or "")
    names += [_place(call, lexicon, 0), _place(call, lexicon, 1)]
    own = {word for name in names for word in re.findall(r"[a-z0-9.]+", name.lower().replace("_", " "))}
    own |= {name.lower() for name in names}
    if "graph" in own:
        own |= {"cuda", "graphs"}
    own |= {"cpu"} if "cpu" in own else {"gpu", "card"}
    return own
