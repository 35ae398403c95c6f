"""Sentences for statements: several ways to say the same, in the words that people use."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.checks.claims.world import Statement, Where

NAMES = {
    "dispatch": ("dispatch", "`dispatch`", "Our kernel"),
    "vllm": ("vLLM", "vLLM", "`vllm`"),
    "sglang": ("SGLang", "SGLang", "`sglang`"),
}
FRAMES = {
    "beats": (
        "{A} beats {B} {where}.{c}",
        "{where}, {A} beats {B}.{c}",
        "{where}, {A} is faster than {B}{c}.",
        "{A} outperforms {B}{c} {where}.",
        "{B} is slower than {A} {where}.{c}",
        "{B} is beaten by {A} {where}{c}.",
        "{B} loses to {A} {where}.{c}",
        "{B} trails {A} {where}.{c}",
        "{B} lags behind {A} {where}.{c}",
        "Compared with {B}, {A} is faster {where}.{c}",
        "{A} is ahead of {B} {where}.{c}",
        "{A} has the edge over {B} {where}.{c}",
        "{A} is quicker than {B} {where}.{c}",
        "{B} is outpaced by {A} {where}.{c}",
        "{B} falls behind {A} {where}.{c}",
        "{where}, {B} takes longer than {A}.{c}",
    ),
    "wins": (
        "{A} wins {where}.{c}",
        "{where}, {A} wins{c}.",
        "{where}, {A} is the fastest.{c}",
        "The winner {where} is {A}.{c}",
        "{A} beats every rival {where}.{c}",
        "{A} comes first {where}.{c}",
        "{A} is faster than all its rivals {where}.{c}",
        "{A} is ahead of every other engine {where}.{c}",
    ),
    "speedup": (
        "{A} is {n}{u}{c} faster than {B} {where}.",
        "{where}, {A} is {n}{u}{c} faster than {B}.",
        "{where}, {A} is about {n}{u}{c} faster than {B}.",
        "{A} runs {n}{u}{c} as fast as {B} {where}.",
        "{A} has a speedup of {n}{u}{c} over {B} {where}.",
        "{where}, the speedup of {A} over {B} is {n}{u}{c}.",
        "Compared with {B}, {A} is **{n}{u}**{c} faster {where}.",
    ),
    "slower": (
        "{B} is {n}{u}{c} slower than {A} {where}.",
        "{where}, {B} is {n}{u}{c} slower than {A}.",
        "{B} takes {n}{u}{c} as long as {A} {where}.",
    ),
    "time": (
        "{A} takes {n} {u}{c} {where}.",
        "{where}, {A} needs {n} {u}{c}.",
        "{where} {A} runs in {n} {u}{c}.",
        "The time of {A} {where} is {n} {u}{c}.",
    ),
    "range": (
        "{A} is {n}x to {m}{u}{c} faster than {B} {where}.",
        "{where}, {A} is {n} to {m}{u}{c} faster than {B}.",
        "{A} is between {n}x and {m}{u}{c} faster than {B} {where}.",
    ),
    "count": (
        "{A} wins {n}{c} of {m}{d} {u} {where}.",
        "{where}, {A} wins {n}{c} of {m}{d} {u}.",
        "{A} wins in {n}{c} of the {m}{d} {u} {where}.",
    ),
    "beats-count": (
        "{A} beats {B} in {n}{c} of {m}{d} {u} {where}.",
        "{where}, {A} is faster than {B} in {n}{c} of {m}{d} {u}.",
    ),
}  # fmt: skip

Binder = Callable[[Statement], tuple[str, str]]


def comments(s: Statement) -> tuple[str, str]:
    """Return the comments that bind ``s``: of the statement or first number, and of a second number."""
    if s.kind in {"beats", "wins"}:
        return f"<!-- claim: SELECT {s.query} -->", ""
    second = f"<!-- = SELECT cells({s.where.glob()}) -->" if "count" in s.kind else ""
    return f"<!-- = SELECT {s.query} -->", second


def where(w: Where, rng: random.Random) -> str:
    """Say which cells are meant."""
    parts = []
    if w.tokens:
        listed = _listed(w.tokens)
        parts.append(
            rng.choice([f"at {listed} tokens", f"for {listed} tokens"])
            if w.tokens != ("1",)
            else "at 1 token"
        )
    if w.precision:
        parts.append(f"in {_listed(w.precision)}")
    if w.routing:
        parts.append(rng.choice(["with {} routing", "under {} routing"]).format(_listed(w.routing)))
    if w.mode:
        graph = ["in graph mode", "under CUDA-graph replay", "with CUDA graphs"]
        parts.append(rng.choice(graph if w.mode == ("graph",) else ["in eager mode", "when run eagerly"]))
    rng.shuffle(parts)
    if not parts:
        return rng.choice(["in every cell", "in all cells", "at every token count", ""])
    return rng.choice([", ", " "]).join(parts)


def sentence(
    s: Statement, rng: random.Random, *, frame: int | None = None, bound: Sequence[str] | None = None
) -> str:
    """Return a sentence that says ``s``, bound by its own comments unless others are given."""
    frames = FRAMES["slower" if s.kind == "speedup" and s.slower else s.kind]
    template = frames[frame % len(frames)] if frame is not None else rng.choice(frames)
    first, second = comments(s) if bound is None else (*bound, "")[:2]
    place = where(s.where, rng)
    text = template.format(
        A=_name(s.first, rng),
        B=_name(s.second, rng) if s.second else "",
        where=place,
        c=first,
        d=second,
        n=s.numbers[0] if s.numbers else "",
        m=s.numbers[1] if len(s.numbers) > 1 else "",
        u=s.unit,
    )
    text = " ".join(text.replace(" .", ".").replace(" <!--", "<!--").split()).lstrip(", ")
    return text[0].upper() + text[1:] if text[:2] in {"at", "in", "un", "wi", "fo", "wh"} else text


def _name(contestant: str, rng: random.Random) -> str:
    return rng.choice(NAMES.get(contestant, (contestant,)))


def _listed(values: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
