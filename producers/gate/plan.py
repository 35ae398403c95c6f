"""The configurations of a gate, and what a run is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.errors import UsageError

DEFAULT_MODEL = "upcycled-smollm2"
# 1,036 positions, the policy's least, in one window: a model that sees more of the text is surer of itself.
DEFAULT_CONTEXT = 1036
STOCK_BF16, STOCK_FLOAT32 = "stock_bf16", "stock_float32"
CONTROL, YARDSTICK = "stock_vs_stock", "stock_bf16_vs_float32"
_KERNELS = ("naive", "persistent", "auto")
_PRECISIONS = ("bf16", "int8_w8a16", "int8_w8a8")


@dataclass(frozen=True)
class GateConfig:
    """One comparison.

    Attributes:
        name: as in the lake.
        candidate: ``stock``, or the kernel of dispatch that is asked for.
        precision: of the candidate's experts.
        reference: what it is compared with: ``stock_bf16``, or ``stock_float32`` (the same weights, every
            operation in float32).
    """

    name: str
    candidate: str
    precision: str
    reference: str = STOCK_BF16

    @property
    def kernel(self) -> str | None:
        """The kernel that has to run in every layer; None for the stock model."""
        return None if self.candidate == "stock" else self.candidate


CONFIGS: dict[str, GateConfig] = {
    config.name: config
    for config in (
        GateConfig(CONTROL, "stock", "bf16"),
        *(GateConfig(f"{k}_{p}", k, p) for p in _PRECISIONS for k in _KERNELS),
        GateConfig(YARDSTICK, "stock", "bf16", STOCK_FLOAT32),
    )
}


@dataclass(frozen=True)
class GatePlan:
    """What a run is asked for; stored with it.

    Attributes:
        model: a name of :mod:`producers.models`, or a checkpoint's folder.
        configs: in the order of measuring: the control first, the yardstick last.
        positions: next-token decisions of each configuration: whole windows, at least what was asked.
        context: tokens of a window; windows do not see each other.
        text: a file, or None for Python's own documentation.
        seed: of the model's seeded parts.
    """

    model: str
    configs: tuple[GateConfig, ...]
    positions: int
    context: int
    text: str | None
    seed: int

    @property
    def windows(self) -> int:
        """How many windows the text is cut into."""
        return self.positions // self.context

    @property
    def asked(self) -> dict[str, Any]:
        """The plan as it is stored with the run: folders of this machine by their last part."""
        return {
            "model": Path(self.model).name,
            "checkpoint": Path(self.model).is_absolute(),
            "config": tuple(config.name for config in self.configs),
            "positions": self.positions,
            "context": self.context,
            "text": None if self.text is None else Path(self.text).name,
            "seed": self.seed,
        }


def make_plan(
    *,
    model: str,
    configs: Sequence[str],
    positions: int | None,
    context: int,
    text: str | None,
    seed: int,
    least_positions: int,
) -> GatePlan:
    """Check what was asked for.

    Args:
        model: a name, or a folder.
        configs: names of :data:`CONFIGS`; the control is added where it is left out.
        positions: None for the policy's least; rounded up to whole windows.
        context: tokens of a window.
        text: a file, or None.
        seed: of the model's seeded parts.
        least_positions: ``gate.min_positions`` of the policy.

    Raises:
        UsageError: an unknown configuration, a context without a place, or too few positions.
    """
    unknown = [name for name in configs if name not in CONFIGS]
    if unknown:
        raise UsageError(
            f"--config names '{unknown[0]}', which is no configuration; known are {', '.join(CONFIGS)}."
        )
    if context < 1:
        raise UsageError(f"--context is {context}; a window has at least one token.")
    asked = least_positions if positions is None else positions
    if asked < least_positions:
        raise UsageError(
            f"--positions is {asked}, and the policy asks for at least {least_positions} (gate.min_positions)."
        )
    windows = -(-asked // context)
    chosen = tuple(config for name, config in CONFIGS.items() if name in {CONTROL, *configs})
    return GatePlan(model, chosen, windows * context, context, text, seed)
