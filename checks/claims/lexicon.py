"""Names that documents use, and what they stand for in the lake: contestants, cells, modes, devices."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from checks.claims.sizes import token_counts

DIMENSIONS = ("workload", "precision", "routing", "tokens", "timing_mode", "device")

# Contestants that a text may name whether or not the lake has met them.
_KNOWN = {
    "dispatch": ("dispatch", "our kernel", "our kernels", "our library", "our implementation", "ours", "we", "our"),
    "dispatch-naive": ("dispatch-naive", "naive kernel", "naive dispatch", "the naive one"),
    "dispatch-persistent": ("dispatch-persistent", "persistent kernel", "persistent dispatch", "the persistent one"),
    "vllm": ("vllm",),
    "vllm-tuned": ("vllm-tuned", "tuned vllm"),
    "sglang": ("sglang", "sgl"),
    "sglang-tuned": ("sglang-tuned", "tuned sglang"),
    "torch-grouped": ("torch-grouped", "torch grouped", "torch", "pytorch", "torch.grouped_mm", "torch._grouped_mm"),
    "humming": ("humming",),
    "triton-kernels": ("triton-kernels", "triton_kernels", "triton kernels"),
    "flashinfer": ("flashinfer",),
    "tensorrt-llm": ("tensorrt-llm", "trt-llm", "tensorrt"),
    "deepgemm": ("deepgemm",),
    "cutlass": ("cutlass",),
    "marlin": ("marlin",),
    "stock": ("stock", "stock model", "transformers"),
}  # fmt: skip
# Words that stand for some contestant without saying which.
_SOMEBODY = re.compile(
    r"\b(?:it|they|them|(?-i:This|That)|rivals?|competitors?|competition|contestants?|engines?|opponents?|everyone|everybody|everything else"
    r"|(?:the|all|every|any) others?|kernels?|implementations?|librar(?:y|ies)|alternatives?)\b",
    re.IGNORECASE,
)
_PRECISIONS = r"bf16|bfloat16|fp16|float16|fp32|fp8(?:_\w+)?|fp4|mxfp4|nvfp4|int4(?:_\w+)?|int8_w8a16|int8_w8a8|int8|w8a16|w8a8|w4a16"
_ROUTINGS = r"uniform|zipf(?:-\d+(?:\.\d+)?)?|zipfian|balanced|captured|dummy|skewed"
_MODES = {"graph": r"(?:cuda[- ])?graphs?(?:[- ](?:mode|replay))?", "eager": r"eager(?:ly)?"}
_DEVICES = r"(?:nvidia |amd )?(?:[abhlvtp]\d{2,3}[a-z]?(?: nvl| sxm\d?)?|b300|gb200|gh200|rtx ?\w+|mi\d{3}[a-z]?|gaudi ?\d)|cpu-interpreter|interpreter"
_MODELS = r"deepseek[-\w.]*|mixtral[-\w.]*|qwen[-\w.]*|olmoe[-\w.]*|gpt-oss[-\w]*|llama[-\w.]*|dbrx"


# Two words with a conjunction between them, and words that stand there and are nobody.
_JOINED = re.compile(
    r"(?P<left>[\w.+-]*\w),? (?:and|or|as well as|plus|&) (?:the |both |even |also |over |against |than )*(?P<right>[\w.+-]*\w)"
    r"(?= (?:at|in|with|under|for|on|by|over|when|from)\b| (?:\w+ly )?(?:is|are|wins?|beats?|leads?|outperforms?)\b| *[,.;:(]| *\Z)",
    re.IGNORECASE,
)
_COMMON = re.compile(
    rf"{_PRECISIONS}|{_ROUTINGS}|\d[\d,.]*|graphs?|replay|eager|mode|tokens?|cells?|more|up|above|less|fewer|so|it|both|others?|rivals?|engines?"
    rf"|fastest|first|everyone|everything|everybody|routing|precision|modes?|routings|precisions|{_MODELS}|{_DEVICES}",
    re.IGNORECASE,
)

_PLACES = {
    "gate": "SELECT DISTINCT model, device FROM gate_runs",
    "decode": "SELECT DISTINCT model, device FROM decode_runs",
    "serving": "SELECT DISTINCT model, device FROM serving_entrants WHERE evidence = 'measured'",
}

_FACTS = {
    "gate": (
        "SELECT DISTINCT r.model, c.weights FROM gate_configs c JOIN gate_runs r USING (run_id) "
        "WHERE r.speaks AND c.weights IS NOT NULL UNION SELECT DISTINCT r.model, len(p.layer_drift) || ' layers' "
        "FROM gate_positions p JOIN gate_runs r USING (run_id) WHERE r.speaks AND p.layer_drift IS NOT NULL"
    ),
    "decode": (
        "SELECT r.model, unnest([c.weights, c.prompt_tokens || ' prompt tokens']) AS fact FROM decode_configs c "
        "JOIN decode_runs r USING (run_id) WHERE r.speaks AND c.weights IS NOT NULL AND c.prompt_tokens IS NOT NULL"
    ),
    "serving": "SELECT DISTINCT model, weights FROM serving_entrants WHERE evidence = 'measured' AND weights IS NOT NULL",
}


@dataclass(frozen=True)
class Mention:
    """A contestant's canonical name, and where the text names it."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Lexicon:
    """What the lake holds, in the words of documents.

    Attributes:
        contestants: Names in rosters, published figures, gate and decode tables.
        houses: Contestant -> house.
        cells: One tuple (workload, precision, routing, tokens, timing_mode, device) a row of `winners`.
        required: Contestants that a policy or roster requires somewhere.
        configurations: What the gate compared with the stock model.
        places: 'gate', 'decode', 'serving' -> the (model, device) that the lake has of it.
        versions: (engine, version) of every engine that was served and measured.
        facts: ('gate', 'decode' or 'serving', model) -> what else a sentence may say of what was measured:
            'seeded', '28 layers', '128 prompt tokens'.
    """

    contestants: frozenset[str] = frozenset()
    houses: Mapping[str, str] = field(default_factory=dict)
    cells: tuple[tuple[str, ...], ...] = ()
    required: frozenset[str] = frozenset()
    configurations: frozenset[str] = frozenset()
    places: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    versions: frozenset[tuple[str, str]] = frozenset()
    facts: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Callable[[str], list[tuple[Any, ...]]]) -> Lexicon:
        """Read the lexicon through ``rows``, a function that runs SQL."""
        houses = dict(rows("SELECT contestant, min(house) FROM run_roster GROUP BY contestant"))
        others = rows(
            "SELECT contestant FROM points UNION SELECT config FROM decode_steps UNION SELECT engine FROM serving_runs"
        )
        cells = rows("SELECT workload, precision, routing, tokens::VARCHAR, timing_mode, device FROM winners")
        configurations = rows("SELECT DISTINCT config FROM gate_positions WHERE config <> 'stock_vs_stock'")
        required = rows("SELECT DISTINCT contestant FROM run_roster WHERE role = 'required'")
        versions = rows(
            "SELECT DISTINCT engine, engine_version FROM serving_entrants "
            "WHERE evidence = 'measured' AND engine_version IS NOT NULL"
        )
        # A configuration may be called by its precision alone; in a sentence that names cells, not somebody.
        names = {
            n
            for n in (*houses, *houses.values(), *(r[0] for r in others))
            if n and not re.fullmatch(_PRECISIONS, n, re.IGNORECASE)
        }
        return cls(
            frozenset(names),
            houses,
            tuple(tuple(str(v) for v in row) for row in cells),
            frozenset(r[0] for r in required),
            frozenset(r[0] for r in configurations),
            {domain: frozenset(rows(query)) for domain, query in _PLACES.items()},
            frozenset(versions),
            _grouped(
                (domain, model, fact) for domain, query in _FACTS.items() for model, fact in rows(query)
            ),
        )

    @cached_property
    def _names(self) -> dict[str, str]:
        """Spelling in lower case -> canonical name."""
        spellings = {s: name for name, all_of in _KNOWN.items() for s in all_of}
        for name in self.contestants:
            spellings.setdefault(name.lower(), name)
            spellings.setdefault(name.lower().replace("-", " ").replace("_", " "), name)
        return spellings

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(self._names, key=len, reverse=True)
        return re.compile(
            rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, longest))})(?![\w/]|-\w|\.\w)", re.IGNORECASE
        )

    def mentions(self, text: str) -> list[Mention]:
        """Return the contestants that ``text`` names, in order."""
        return [Mention(self._names[m[0].lower()], m.start(), m.end()) for m in self._pattern.finditer(text)]

    def stranger(self, text: str) -> str | None:
        """Return a name that is joined to a contestant's by 'and' and that nobody knows ('vLLM and TGI')."""
        places = self.mentions(text)
        spans = [(m.start, m.end) for m in places]
        for match in _JOINED.finditer(text):
            left, right = match.span("left"), match.span("right")
            touches_left = any((a <= left[0] and left[1] <= b) or left[1] == b for a, b in spans)
            touches_right = any(a == right[0] or a <= right[0] < b for a, b in spans)
            if touches_left and not touches_right and not _COMMON.fullmatch(match["right"]):
                return match["right"]
            if touches_right and not touches_left and not _COMMON.fullmatch(match["left"]):
                return match["left"]
        return None

    def configurations_of(self, patterns: str) -> list[str]:
        """Return the gate's configurations that ``patterns`` (globs with commas) select, sorted.

        '*' is every candidate; what stock is compared with itself or with float32 is named in full.
        """
        globs = [p.strip() for p in patterns.split(",")]
        return sorted(
            c
            for c in self.configurations
            if c in globs or (not c.startswith("stock_") and any(fnmatchcase(c, g) for g in globs))
        )

    def configurations_named(self, text: str) -> frozenset[str]:
        """Return the gate's configurations whose full names ``text`` has."""
        return self.configurations & set(re.findall(r"\w+", text))

    def meant(self, name: str) -> str | None:
        """Return the known name that the unknown ``name`` may be a misspelling of; None for a known one."""
        known = self.contestants | self.configurations
        if name in known or name in _KNOWN:
            return None
        spellings = {k.lower(): k for k in sorted(known)}
        close = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.7)
        return spellings[close[0]] if close else None

    def names_somebody(self, text: str) -> bool:
        """Whether ``text`` speaks of a contestant without naming one."""
        return bool(_SOMEBODY.search(text))

    def all_of(self, dimension: str, device: str | None = None) -> frozenset[str]:
        """Return every value of a dimension in the lake, on ``device`` if one is given."""
        key = (dimension, device)
        if key not in self._values:
            at = DIMENSIONS.index(dimension)
            self._values[key] = frozenset(c[at] for c in self.cells if device is None or c[-1] == device)
        return self._values[key]

    @cached_property
    def _values(self) -> dict[tuple[str, str | None], frozenset[str]]:
        """What `all_of` has given: it is asked of every clause."""
        return {}

    def select(self, cells: str, mode: str | None, device: str | None) -> tuple[tuple[str, ...], ...]:
        """Return the rows of ``cells`` that the arguments of a race macro select; device None: the only one."""
        key = (cells, mode, device)
        if key not in self._selections:
            globs = [[g.strip() for g in part.split(",")] for part in cells.split("/")]
            if device is None and len(self.all_of("device")) != 1:
                self._selections[key] = ()
            else:
                self._selections[key] = tuple(
                    row
                    for row in self.cells
                    if mode in {None, row[4]}
                    and device in {None, row[5]}
                    and all(any(fnmatchcase(v, g) for g in gs) for v, gs in zip(row[:4], globs, strict=True))
                )
        return self._selections[key]

    @cached_property
    def _selections(self) -> dict[tuple[str, str | None, str | None], tuple[tuple[str, ...], ...]]:
        """What `select` has given."""
        return {}

    def scope(self, text: str, *, bare_numbers: bool) -> dict[str, frozenset[str]]:
        """Return the values that ``text`` names, by dimension; a dimension that it does not name is absent.

        'int8' alone stands for all int8 precisions of the lake. With ``bare_numbers`` an integer that has no unit
        counts as a number of tokens ('at 128').
        """
        named = {
            "precision": self._precisions(text),
            "routing": {_zipf(m) for m in _words(_ROUTINGS, text)},
            "timing_mode": {mode for mode, p in _MODES.items() if _words(p, text)},
            "device": self._devices(text),
            "workload": self._workloads(text),
            "tokens": token_counts(text, self._sizes, bare=bare_numbers),
        }
        return {name: frozenset(values) for name, values in named.items() if values}

    @cached_property
    def _sizes(self) -> list[int]:
        return [int(t) for t in self.all_of("tokens") if t.isdigit()]

    def _precisions(self, text: str) -> set[str]:
        values: set[str] = set()
        for word in _words(_PRECISIONS, text):
            full = {"bfloat16": "bf16", "float16": "fp16", "w8a8": "int8_w8a8", "w8a16": "int8_w8a16"}.get(
                word, word
            )
            family = (
                {p for p in self.all_of("precision") if p.startswith(f"{full}_")}
                if full in {"int8", "int4"}
                else set()
            )
            values |= family or {full}
        return values

    def _devices(self, text: str) -> set[str]:
        values = set()
        for word in _words(_DEVICES, text):
            known = {
                d
                for d in self.all_of("device")
                if word in {d.lower(), *d.lower().split()} or d.lower().endswith(f"-{word}")
            }
            values |= known or {word}
        return values | {d for d in self.all_of("device") if d.lower() in text.lower()}

    def _workloads(self, text: str) -> set[str]:
        values = set()
        for word in _words(_MODELS, text):
            known = {w for w in self.all_of("workload") if w.lower() == word or w.lower().startswith(word)}
            values |= known or {word}
        return values


def _grouped(found: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], frozenset[str]]:
    facts: dict[tuple[str, str], frozenset[str]] = {}
    for domain, model, fact in found:
        facts[domain, model] = facts.get((domain, model), frozenset()) | {fact}
    return facts


def _words(pattern: str, text: str) -> list[str]:
    return [m[0].lower() for m in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w]|-\w)", text, re.IGNORECASE)]


def _zipf(word: str) -> str:
    return {"zipfian": "zipf", "skewed": "zipf", "zipf-1": "zipf", "zipf-1.0": "zipf"}.get(word, word)
