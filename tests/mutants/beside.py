"""Mutants of sentences about the gate, decode inside a model and served engines, and the truth from the raw rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from tests.checks.claims.beside import DECODE, DISAGREEMENTS, LOADS, SERVED
from tests.mutants.drawing import Mutant, Mutator

NAMES = {"vllm": "vLLM", "sglang": "SGLang"}
METRICS = {"output_tokens_per_s": "throughput", "ttft_p50_ms": "time to first token"}
# Kind -> whose names it takes, the unit as printed, the places that are printed.
KINDS: dict[str, tuple[Sequence[str], str, int]] = {
    "agreement": (tuple(DISAGREEMENTS), "%", 2),
    "positions": (tuple(DISAGREEMENTS), "positions", 0),
    "decode-rate": (tuple(DECODE), "tokens/s", 1),
    "decode-speedup": (tuple(DECODE), "x", 2),
    "decode-beats": (tuple(DECODE), "", 0),
    "served-rate": (tuple(SERVED), "tokens/s", 1),
    "ttft": (tuple(SERVED), "ms", 1),
    "cost": (tuple(SERVED), "USD", 2),
    "served-speedup": (tuple(SERVED), "x", 2),
    "served-beats": (tuple(SERVED), "", 0),
}
FRAMES = {
    "agreement": (
        "{A} agrees with the stock model at {n}{u}{c} of positions.",
        "At {n}{u}{c} of positions {A} agrees with the stock model.",
        "The agreement of {A} with the stock model is {n}{u}{c}.",
    ),
    "positions": (
        "{A} was compared with the stock model at {n}{c} {u}.",
        "At {n}{c} {u} {A} stood beside the stock model.",
    ),
    "decode-rate": (
        "{A} decodes {n} {u}{c}.",
        "Inside the model {A} decodes {n} {u}{c}.",
        "The decode rate of {A} is {n} {u}{c}.",
    ),
    "decode-speedup": (
        "Inside the model {A} is {n}{u}{c} faster than {B}.",
        "{A} decodes {n}{u}{c} faster than {B}.",
        "{B} decodes {n}{u}{c} slower than {A}.",
        "Compared with {B}, {A} decodes {n}{u}{c} faster.",
    ),
    "decode-beats": (
        "{A} decodes faster than {B}.{c}",
        "Inside the model {B} is slower than {A}.{c}",
        "Inside the model {A} beats {B}{c}.",
    ),
    "served-rate": (
        "{A} serves {n} {u}{c} at concurrency {l}.",
        "At concurrency {l}, {A} gives {n} {u}{c}.",
        "With {l} concurrent requests {A} serves {n} {u}{c}.",
    ),
    "ttft": (
        "At concurrency {l} the time to first token of {A} is {n} {u}{c}.",
        "The TTFT of {A} is {n} {u}{c} at concurrency {l}.",
    ),
    "cost": (
        "{A} costs {n} {u}{c} per million output tokens at concurrency {l}.",
        "At concurrency {l}, a million output tokens of {A} cost {n} {u}{c}.",
    ),
    "served-speedup": (
        "{A} is {n}{u}{c} ahead of {B} in {m} at concurrency {l}.",
        "In {m}, {A} is {n}{u}{c} faster than {B} at concurrency {l}.",
        "At concurrency {l}, {B} is {n}{u}{c} behind {A} in {m}.",
    ),
    "served-beats": (
        "{A} beats {B} in {m} at concurrency {l}.{c}",
        "At concurrency {l}, {B} trails {A} in {m}.{c}",
        "In {m}, {A} is ahead of {B} at concurrency {l}{c}.",
    ),
}

# What a sentence is about, and what it could be turned into.
SUBJECTS = {
    "agreement": (("agrees with", "disagrees with"), ("agreement of", "accuracy of")),
    "positions": (("was compared with", "agrees with"), ("stood beside", "agreed with")),
    "decode-rate": (("decodes", "prefills"), ("decode rate", "prefill rate")),
    "decode-speedup": (("decodes", "prefills"),),
    "served-rate": ((" tokens/s", " input tokens/s"), (" serves ", " decodes ")),
    "ttft": (("time to first token", "latency"), ("TTFT", "latency")),
    "cost": (("million output", "thousand output"), ("million output", "million input")),
    "served-speedup": (("throughput", "latency"), ("time to first token", "latency")),
    "served-beats": (("throughput", "cost"), ("time to first token", "latency")),
}


@dataclass(frozen=True)
class Statement:
    """What a sentence says; ``load`` is the concurrency, ``number`` and ``unit`` are as printed."""

    kind: str
    first: str
    second: str = ""
    load: int = 0
    metric: str = ""
    number: str = ""
    unit: str = ""

    @property
    def query(self) -> str:
        """The typed call that binds it."""
        a, b, load, metric = self.first, self.second, self.load, self.metric
        return {
            "agreement": f"agreement('{a}')",
            "positions": f"positions('{a}')",
            "decode-rate": f"decode_tokens_per_second('{a}')",
            "decode-speedup": f"decode_speedup('{a}', '{b}')",
            "decode-beats": f"decode_beats('{a}', '{b}')",
            "served-rate": f"tokens_per_second('{a}', {load})",
            "ttft": f"ttft_ms('{a}', {load})",
            "cost": f"cost_per_m_output_tokens('{a}', {load})",
            "served-speedup": f"serving_speedup('{a}', '{b}', {load}, '{metric}')",
            "served-beats": f"serving_beats('{a}', '{b}', {load}, '{metric}')",
        }[self.kind]

    @property
    def comment(self) -> str:
        """The comment that binds it."""
        return f"<!-- {'claim:' if self.kind.endswith('beats') else '='} SELECT {self.query} -->"


class BesideOracle:
    """Truth from the raw rows: pandas, no view, no macro."""

    def __init__(self, lake: Path) -> None:
        def table(name: str) -> Any:
            return pd.concat([pd.read_parquet(f) for f in sorted((lake / name).glob("*.parquet"))])

        gate, steps, served = table("gate_positions"), table("decode_steps"), table("serving_runs")
        self.positions = gate.groupby("config")["agree"].count().to_dict()
        self.agreement = (100 * gate.groupby("config")["agree"].mean()).to_dict()
        rates = 1e6 / steps.groupby(["config", "repeat"])["time_us"].mean()
        self.rates = {config: list(rates[config]) for config in DECODE}
        self.served = {
            (engine, load, metric): list(group[metric])
            for (engine, load), group in served.groupby(["engine", "max_concurrency"])
            for metric in METRICS
        }
        self.usd_per_h = float(table("costs")["rate_usd_per_h"].iloc[0])

    def _repeats(self, s: Statement, who: str) -> list[float]:
        if s.kind.startswith("decode"):
            return self.rates[who]
        return self.served[who, s.load, s.metric or "output_tokens_per_s"]

    def value(self, s: Statement) -> float:
        """Return the figure that the statement is about.

        Raises:
            KeyError: there is no such evidence.
        """
        match s.kind:
            case "agreement":
                return float(self.agreement[s.first])
            case "positions":
                return float(self.positions[s.first])
            case "ttft":
                return median(self.served[s.first, s.load, "ttft_p50_ms"])
            case "cost":
                return self.usd_per_h / 3600 / median(self._repeats(s, s.first)) * 1e6
            case "decode-rate" | "served-rate":
                return median(self._repeats(s, s.first))
        ratio = median(self._repeats(s, s.first)) / median(self._repeats(s, s.second))
        return 1 / ratio if s.metric == "ttft_p50_ms" else ratio

    def true(self, s: Statement) -> bool:
        """Whether the statement is true."""
        _, unit, _ = KINDS[s.kind]
        try:
            value = self.value(s)
            if s.second and not self._apart(s):
                return False
        except KeyError:
            return False
        if s.kind.endswith("beats"):
            return True
        half = 0.5 * 10.0 ** -len(s.number.partition(".")[2])
        return s.unit == unit and float(s.number) - half <= value < float(s.number) + half

    def _apart(self, s: Statement) -> bool:
        """Whether every repeat of the first is better than every repeat of the second."""
        first, second = self._repeats(s, s.first), self._repeats(s, s.second)
        return max(first) < min(second) if s.metric == "ttft_p50_ms" else min(first) > max(second)

    @cached_property
    def statements(self) -> list[Statement]:
        """True statements of every kind."""
        found = []
        for kind, (names, unit, places) in KINDS.items():
            served = kind in {"served-rate", "ttft", "cost", "served-speedup", "served-beats"}
            paired = kind.endswith(("speedup", "beats"))
            for first in names:
                for second in [n for n in names if n != first] if paired else [""]:
                    for load in LOADS if served else (0,):
                        for metric in METRICS if served and paired else ("",):
                            said = Statement(kind, first, second, load, metric)
                            if not kind.endswith("beats"):
                                number = f"{self.value(said):.{places}f}"
                                said = replace(said, number=number, unit=unit)
                            found.append(said)
        return [s for s in found if self.true(s)]


class BesideMutator(Mutator[Statement]):
    """Draws mutants of those statements."""

    def __init__(self, oracle: BesideOracle, rng: random.Random) -> None:
        super().__init__(oracle.statements, rng)
        self.oracle = oracle
        self.edits = {
            "last-place": lambda s: self._words(s, self._moved(s, 1), "last-place"),
            "number": lambda s: self._words(s, self._moved(s, rng.choice((3, 10, 100))), "number"),
            "unit": lambda s: self._words(s, self._unit(s), "unit"),
            "who": lambda s: self._words(s, self._renamed(s), "who"),
            "direction": lambda s: self._words(s, self._swapped(s), "direction"),
            "load": lambda s: self._words(s, self._load(s), "load"),
            "metric": lambda s: self._words(s, self._metric(s), "metric"),
            "who-and-query": lambda s: self._both(self._renamed(s), "who-and-query"),
            "load-and-query": lambda s: self._both(self._load(s), "load-and-query"),
            "direction-and-query": lambda s: self._both(self._swapped(s), "direction-and-query"),
            "unbound": self._unbound,
            "foreign-binding": self._foreign,
            "elsewhere": self._elsewhere,
            "subject": self._subject,
        }

    def sentence(self, statement: Statement, comment: str | None = None) -> str:
        """Say ``statement`` in some words, bound by its own comment unless another is given."""
        s = statement
        return self.rng.choice(FRAMES[s.kind]).format(
            A=NAMES.get(s.first, s.first),
            B=NAMES.get(s.second, s.second),
            n=s.number,
            u=s.unit,
            l=s.load,
            m=METRICS.get(s.metric, ""),
            c=s.comment if comment is None else comment,
        )

    def _words(self, s: Statement, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self.layout(self.sentence(said, s.comment)), self.oracle.true(said))

    def _both(self, said: Statement | None, edit: str) -> Mutant | None:
        if said is None:
            return None
        return Mutant(edit, self.layout(self.sentence(said)), self.oracle.true(said))

    def _moved(self, s: Statement, steps: int) -> Statement | None:
        if not s.number:
            return None
        places = len(s.number.partition(".")[2])
        value = abs(float(s.number) + self.rng.choice((-1, 1)) * steps * 10.0**-places)
        return replace(s, number=f"{value:.{places}f}")

    def _unit(self, s: Statement) -> Statement | None:
        others = [u for u in ("%", "x", "ms", "us", "tokens/s", "USD") if u != s.unit]
        return replace(s, unit=self.rng.choice(others)) if s.unit else None

    def _renamed(self, s: Statement) -> Statement | None:
        names = [n for n in (*KINDS[s.kind][0], "humming") if n not in {s.first, s.second}]
        return replace(s, first=self.rng.choice(names))

    def _swapped(self, s: Statement) -> Statement | None:
        return replace(s, first=s.second, second=s.first) if s.second else None

    def _load(self, s: Statement) -> Statement | None:
        loads = [load for load in (*LOADS, 16) if load != s.load]
        return replace(s, load=self.rng.choice(loads)) if s.load else None

    def _metric(self, s: Statement) -> Statement | None:
        return replace(s, metric=next(m for m in METRICS if m != s.metric)) if s.metric else None

    def _unbound(self, s: Statement) -> Mutant:
        return Mutant("unbound", self.layout(self.sentence(s, "")), self.oracle.true(s), unbound=True)

    def _foreign(self, s: Statement) -> Mutant | None:
        other = self.rng.choice(self.statements)
        said = self._moved(s, 1) or self._swapped(s)
        if said is None or other.query == s.query:
            return None
        return Mutant(
            "foreign-binding", self.layout(self.sentence(said, other.comment)), self.oracle.true(said)
        )

    def _elsewhere(self, s: Statement) -> Mutant:
        """A model or a card put into the sentence that the lake has nothing of."""
        place = self.rng.choice(("On the A100, ", "For Mixtral, ", "On an H100, "))
        return Mutant("elsewhere", place + self.sentence(s), true=False)

    def _subject(self, s: Statement) -> Mutant | None:
        """The figure told of a neighbour: another rate, another latency, another price."""
        text = self.sentence(s)
        for words, other in SUBJECTS.get(s.kind, ()):
            if words in text:
                return Mutant("subject", self.layout(text.replace(words, other, 1)), true=False)
        return None
