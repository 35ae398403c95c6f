"""The configurations of decode, and what a run is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.errors import UsageError

DEFAULT_MODEL = "upcycled-smollm2"
REFERENCE = "stock_eager_bf16"
BF16 = "bf16"
PRECISIONS = (BF16, "int8_w8a16", "int8_w8a8")
WARM_UP_STEPS = 1


@dataclass(frozen=True)
class DecodeConfig:
    """One way to decode.

    Attributes:
        name: as in the lake.
        experts: what runs the experts: a name of transformers' experts interface.
        precision: of the experts' weights and products; everything else stays in bfloat16.
        graph: whether a step is one replay of a CUDA graph, with a static cache.
        layers: what runs everything but the experts: ``transformers``, or ``fused`` (:mod:`dispatch.decode`).
    """

    name: str
    experts: str
    precision: str = BF16
    graph: bool = False
    layers: str = "transformers"

    @property
    def cache(self) -> str:
        """``static`` (fixed addresses, for a graph) or ``dynamic``."""
        return "static" if self.graph else "dynamic"

    @property
    def on_dispatch(self) -> bool:
        """Whether dispatch's kernels must run in every layer."""
        return self.experts == "dispatch"


CONFIGS: dict[str, DecodeConfig] = {
    config.name: config
    for config in (
        DecodeConfig(REFERENCE, "eager"),
        DecodeConfig("grouped_mm_bf16", "grouped_mm"),
        *(DecodeConfig(f"dispatch_{p}", "dispatch", p) for p in PRECISIONS),
        *(DecodeConfig(f"dispatch_graph_{p}", "dispatch", p, graph=True) for p in PRECISIONS),
        *(DecodeConfig(f"fused_graph_{p}", "dispatch", p, graph=True, layers="fused") for p in PRECISIONS),
    )
}


@dataclass(frozen=True)
class DecodePlan:
    """What a run is asked for; stored with it.

    Attributes:
        model: a name of :mod:`producers.models`, or a checkpoint's folder.
        configs: the reference first.
        prompt_tokens: tokens that are read before the first step.
        steps: timed steps of a repeat.
        repeats: how often each configuration decodes.
        seed: of the model's seeded parts, and of the order.
    """

    model: str
    configs: tuple[DecodeConfig, ...]
    prompt_tokens: int
    steps: int
    repeats: int
    seed: int

    @property
    def asked(self) -> dict[str, Any]:
        """What the lake keeps; a folder by its last part."""
        return {
            "model": Path(self.model).name,
            "config": [config.name for config in self.configs],
            "prompt_tokens": self.prompt_tokens,
            "steps": self.steps,
            "warm_up_steps": WARM_UP_STEPS,
            "repeats": self.repeats,
            "seed": self.seed,
        }


def make_plan(
    *, model: str, configs: Sequence[str], prompt_tokens: int, steps: int, repeats: int, seed: int
) -> DecodePlan:
    """Check what was asked for.

    Raises:
        UsageError: an unknown configuration, one named twice, or a number below its least.
    """
    unknown = [name for name in configs if name not in CONFIGS]
    if unknown:
        raise UsageError(
            f"There is no configuration '{unknown[0]}' of decode; known are {', '.join(CONFIGS)}."
        )
    doubles = sorted({name for name in configs if list(configs).count(name) > 1})
    if doubles:
        raise UsageError(f"--config names {doubles[0]} twice.")
    for option, value, least in (
        ("prompt-tokens", prompt_tokens, 1),
        ("steps", steps, 1),
        ("repeats", repeats, 1),
        ("seed", seed, 0),
    ):
        if value < least:
            raise UsageError(f"--{option} is {value}; the least is {least}.")
    # The reference decodes in every run: without its tokens nothing else can be checked.
    named = dict.fromkeys([REFERENCE, *configs])
    return DecodePlan(model, tuple(CONFIGS[name] for name in named), prompt_tokens, steps, repeats, seed)
