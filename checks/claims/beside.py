"""What a sentence about the gate, decode inside a model or served engines has to say, set against its query.

A figure of these has many neighbours: agreement and positions, decode and prefill, the first token and the whole
answer, a million output tokens and a thousand. Each macro names the words that its sentence needs and those that would
make it another statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.claims.lexicon import Lexicon
from checks.claims.macros import Call
from checks.claims.plain import foreign as foreign_word

_AGREE = (r"\bagree(?:s|d|ment)?\b", r"\bdisagree|\bperplexity|\baccura")
_DECODE = (
    r"\bdecod\w+|\bgenerat\w+|\b(?:inside|within|in) (?:the|a) model\b|\bin-model\b",
    r"\bprefill\w*|\bprompt (?:tokens?|processing)\b|\btrains?\b|\btraining\b",
)
_TTFT = r"\bttft\b|\btime to (?:the )?first token\b"
# Macro -> what its sentence needs, what it must not say; None for nothing.
_WORDS: dict[str, tuple[str | None, str | None]] = {
    "agreement": _AGREE,
    "agreement_range": _AGREE,
    "positions": (None, r"agree|differ|\bsame\b|\bequal|identical|\bmatch|\bright\b|\bwrong\b|correct"),
    "decode_tokens_per_second": _DECODE,
    "decode_speedup": _DECODE,
    "decode_beats": _DECODE,
    "tokens_per_second": (None, r"\bprefill\w*|\b(?:prompt|input|total) tokens?\b|\bdecod\w+"),
    "ttft_ms": (_TTFT, None),
    "cost_per_m_output_tokens": (r"\b(?:million|1M|M) output tokens\b", None),
}
# Metric of serving_pairs -> the same; others have no words that tell them from their neighbours.
_METRICS: dict[str, tuple[str | None, str | None]] = {
    "output_tokens_per_s": (
        r"\bthroughput\b|\btokens? (?:per|a) second\b",
        r"\bttft\b|\bfirst token\b|\bcosts?\b|\blatency\b",
    ),
    "ttft_p50_ms": (_TTFT, r"\bthroughput\b|\bcosts?\b"),
}
# Words of a configuration's name that every sentence about the gate has.
_UNSPECIFIC = frozenset({"stock", "vs"})


def mismatch(call: Call, said: str, around: Sequence[str], lexicon: Lexicon) -> str | None:
    """Return what the sentence does not say, or says of something else; None where it fits ``call``.

    Args:
        call: A typed call of the gate, of decode or of served engines.
        said: The clause with its labels.
        around: Texts that a missing model or card may be named in.
        lexicon: What the lake holds.
    """
    if call.macro.domain == "gate" and (
        why := _configuration(call.get("configuration") or "", said, lexicon)
    ):
        return why
    metric = call.get("metric_name")
    if metric is not None and metric not in _METRICS:
        return f"no sentence can tell {metric} from its neighbours: use one of {', '.join(_METRICS)}"
    needed, foreign = _METRICS[metric] if metric is not None else _WORDS[call.name]
    if needed is not None and not re.search(needed, said, re.IGNORECASE):
        return f"the sentence has to say what the query is about: {metric or call.name.replace('_', ' ')}"
    if foreign is not None and (word := re.search(foreign, said, re.IGNORECASE)):
        return f"the sentence says '{word[0]}', {metric or call.name} gives something else"
    return _place(call, said, around, lexicon) or foreign_word(call, said, lexicon)


def _place(call: Call, said: str, around: Sequence[str], lexicon: Lexicon) -> str | None:
    """The model and the device are named where the lake has several of the kind, and no other one is."""
    known = lexicon.places[call.macro.domain]
    if not known:
        return None  # the query finds no evidence
    everything = " ; ".join([said, *around]).lower()
    scope = lexicon.scope(said, bare_numbers=False)
    for at, (parameter, dimension) in enumerate((("model_name", "workload"), ("device_name", "device"))):
        values = {place[at] for place in known}
        meant = call.get(parameter) or (min(values) if len(values) == 1 else "")
        if not meant:
            return f"the lake has {', '.join(sorted(values))}: give {parameter} := one of them"
        if len(values) > 1 and not _says(everything, meant):
            return f"the sentence has to name {meant}"
        others = [v for v in sorted(values) if v != meant and _says(said.lower(), v)]
        others += [v for v in sorted(scope.get(dimension, ())) if not _means(v.lower(), meant.lower())]
        if others:
            return f"the sentence says {others[0]}, the query is about {meant}"
    return None


def _means(word: str, name: str) -> bool:
    """Whether ``word`` of a text may stand for ``name``: its beginning, one of its words, or more than it."""
    return name.startswith(word) or word in name.split() or _says(word, name)


def _says(text: str, name: str) -> bool:
    """Whether ``text``, in lower case, has the name, or the last word of a card's ('H200' of 'NVIDIA H200')."""
    last = name.lower().rpartition(" ")[2]
    words = {name.lower(), name.lower().replace("-", " "), *([last] if re.search(r"\d", last) else [])}
    return any(re.search(rf"(?<![\w-]){re.escape(w)}(?![\w-])", text) for w in words)


def _configuration(pattern: str, text: str, lexicon: Lexicon) -> str | None:
    """The gate's configuration is named by its words: 'auto int8_w8a8' for auto_int8_w8a8."""
    chosen = lexicon.configurations_of(pattern)
    if not chosen:
        return None  # the query finds no evidence
    said = set(re.findall(r"[a-z0-9]+", text.lower()))
    words = {c: set(c.lower().split("_")) - _UNSPECIFIC for c in lexicon.configurations}
    named = set[str]().union(*(words[c] for c in chosen))
    everything = len(chosen) == len(lexicon.configurations_of("*")) > 1
    if not everything and not named <= said:
        return f"the sentence has to name {', '.join(chosen)}"
    foreign = set[str]().union(*words.values()) - named
    return f"the sentence names '{min(foreign & said)}', the query does not" if foreign & said else None
