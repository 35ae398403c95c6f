"""Prompts of exact lengths, drawn from a seed before any engine is started: the same for every engine.

A prompt is a run of whole words of the model's own vocabulary, so that its token ids and its text say the same:
engines that take ids are given ids, the others text, and the server's count shows whether they agree. Words lie
inside the embedding and are none of the special tokens.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.errors import UsageError

# Byte-level BPE (GPT-2 and its heirs) writes the space before a word as this letter.
_SPACE = "\u0120"
_WORD = re.compile(_SPACE + "[a-z]{3,}")
_LEAST_WORDS = 100


@dataclass(frozen=True)
class Prompt:
    """One prompt as token ids, and as the text that they stand for (NULL where only ids are known)."""

    ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True)
class Vocabulary:
    """Ids that may be drawn, and the text of each."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]


def read_vocabulary(model: Path) -> Vocabulary:
    """The words of a model folder's ``tokenizer.json``, in the order of their ids.

    Raises:
        UsageError: the folder has no ``config.json`` or ``tokenizer.json``, or no byte-level vocabulary.
    """
    config, tokenizer = _json(model / "config.json"), _json(model / "tokenizer.json")
    size = config.get("vocab_size") or _inside(config, "text_config").get("vocab_size") or 0
    if not isinstance(size, int):
        raise UsageError(f"{model / 'config.json'} has a 'vocab_size' that is no whole number.")
    vocabulary = _inside(_inside(tokenizer, "model"), "vocab")
    words = sorted(
        (index, word)
        for word, index in vocabulary.items()
        if _WORD.fullmatch(word) and isinstance(index, int) and 0 <= index < size
    )
    if len(words) < _LEAST_WORDS:
        raise UsageError(
            f"{model / 'tokenizer.json'} has {len(words)} words of a byte-level vocabulary under "
            f"{size} ids; prompts are drawn from at least {_LEAST_WORDS}."
        )
    return Vocabulary(
        tuple(index for index, _ in words), tuple(" " + word.removeprefix(_SPACE) for _, word in words)
    )


def draw(vocabulary: Vocabulary, seed: int, label: str, count: int, tokens: int) -> list[Prompt]:
    """``count`` prompts of ``tokens`` tokens each; another ``label`` gives others."""
    generator = random.Random(f"{seed}/{label}")  # noqa: S311 - reproducible, not secret
    places = range(len(vocabulary.ids))
    prompts = []
    for _ in range(count):
        drawn = generator.choices(places, k=tokens)
        text = "".join(vocabulary.texts[place] for place in drawn)
        prompts.append(Prompt(tuple(vocabulary.ids[place] for place in drawn), text))
    return prompts


def arrivals(seed: int, label: str, count: int, rate_per_s: float | None) -> list[float]:
    """When to send each request, seconds: a Poisson process of that rate; all 0 without one."""
    if rate_per_s is None:
        return [0.0] * count
    generator = random.Random(f"{seed}/{label}/arrivals")  # noqa: S311 - likewise
    times, now = [], 0.0
    for _ in range(count):
        times.append(now)
        now += generator.expovariate(rate_per_s)
    return times


def encode(prompts: Sequence[Prompt]) -> bytes:
    """The prompts as a file: one JSON object a line."""
    lines = [json.dumps({"ids": prompt.ids, "text": prompt.text}) for prompt in prompts]
    return "".join(f"{line}\n" for line in lines).encode()


def sha256(prompts: Sequence[Prompt]) -> str:
    """Hash of :func:`encode`: equal for two engines that were asked the same."""
    return hashlib.sha256(encode(prompts)).hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise UsageError(
            f"Cannot read {path} ({type(error).__name__}); --model names a folder with config.json and "
            "tokenizer.json."
        ) from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is no JSON object.")
    return content


def _inside(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The object at a name; empty where there is none."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}
