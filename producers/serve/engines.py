"""The engines that can be served: how each is started, what it is asked, and what it calls its options.

Prefix caches are off, randomness is seeded, usage statistics are not sent. Nothing else is set: what an engine
does by default is what is compared.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from producers.serve.prompts import Prompt

HOST = "127.0.0.1"
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "*.pt", "*.pth")


@dataclass(frozen=True)
class Served:
    """What is served: the folder (or name) of a model, what rows call it, and whether it has weights."""

    path: str
    name: str
    weightless: bool


@dataclass(frozen=True)
class Engine:
    """One engine.

    Attributes:
        name: as in ``serving_runs.engine``.
        packages: whose versions are recorded; the first is the engine's own.
        arguments: what follows the interpreter, given the model and the port.
        body: the JSON body of one request, given the model, the prompt and the output length.
        environment: variables it is started with.
        prefix_cache: its state under ``arguments``: ``off``, or ``unknown``.
        cache_options: options that change that state; with one of them it is ``unknown``.
        program: a program of its own in place of the interpreter.
        health: path that answers 200 once requests are taken.
        needs_weights: it cannot make up weights.
    """

    name: str
    packages: tuple[str, ...]
    arguments: Callable[[Served, int], list[str]]
    body: Callable[[Served, Prompt, int], dict[str, Any]]
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix_cache: str = "off"
    cache_options: tuple[str, ...] = ()
    program: str | None = None
    health: str = "/health"
    needs_weights: bool = False

    def cache_state(self, extra: Sequence[str]) -> str:
        """State of the prefix cache with some further arguments."""
        changed = any(argument.partition("=")[0] in self.cache_options for argument in extra)
        return "unknown" if changed else self.prefix_cache


def has_weights(model: str) -> bool:
    """Whether a model's folder holds weights; what is no folder (a name for the engine to find) has them."""
    folder = Path(model)
    return not folder.is_dir() or any(next(folder.glob(pattern), None) for pattern in _WEIGHTS)


def custom(name: str, command: str) -> Engine:
    """Any other OpenAI-compatible server: a command line with ``{model}`` and ``{port}`` in it.

    Raises:
        ValueError: the command cannot be split into words, or is empty.
    """
    words = shlex.split(command)
    if not words:
        raise ValueError("is empty")

    def fill(served: Served, port: int) -> list[str]:
        return [word.replace("{model}", served.path).replace("{port}", str(port)) for word in words[1:]]

    return Engine(name, (), fill, _text_body, prefix_cache="unknown", program=words[0])


def _dummy(served: Served) -> list[str]:
    return ["--load-format", "dummy"] if served.weightless else []


def _vllm(served: Served, port: int) -> list[str]:
    return [
        *("-m", "vllm.entrypoints.cli.main", "serve", served.path, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(port), "--seed", "0", "--no-enable-prefix-caching"),
        *_dummy(served),
    ]


def _sglang(served: Served, port: int) -> list[str]:
    return [
        *("-m", "sglang.launch_server", "--model-path", served.path, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(port), "--random-seed", "0", "--disable-radix-cache"),
        *_dummy(served),
    ]


def _transformers(served: Served, port: int) -> list[str]:
    return [
        *("-m", "transformers.cli.transformers", "serve", served.path),
        *("--host", HOST, "--port", str(port), "--default-seed", "0"),
    ]


def _streamed(prompt: object) -> dict[str, Any]:
    return {"prompt": prompt, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}


def _ids_body(served: Served, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
    body = _streamed(list(prompt.ids))
    return {**body, "model": served.name, "max_tokens": output_tokens, "ignore_eos": True}


def _text_body(served: Served, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
    return {**_streamed(prompt.text), "model": served.name, "max_tokens": output_tokens}


def _transformers_body(_served: Served, prompt: Prompt, output_tokens: int) -> dict[str, Any]:
    # It refuses fields that it does not know (ignore_eos), and takes a whole generation configuration.
    lengths = {"max_new_tokens": output_tokens, "min_new_tokens": output_tokens, "do_sample": False}
    return {**_streamed(prompt.text), "generation_config": json.dumps(lengths)}


_QUIET = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "vllm",
            ("vllm", "torch", "transformers"),
            _vllm,
            _ids_body,
            # FlashInfer's sampler would be compiled at the first start, by nvcc, for a minute and a half.
            {**_QUIET, "VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"},
            cache_options=("--enable-prefix-caching",),
        ),
        Engine("sglang", ("sglang", "torch", "transformers"), _sglang, _ids_body, _QUIET),
        Engine(
            "transformers",
            ("transformers", "torch"),
            _transformers,
            _transformers_body,
            _QUIET,
            cache_options=("--continuous-batching",),
            needs_weights=True,
        ),
    )
}
