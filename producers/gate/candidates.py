"""The model of a configuration: the stock model itself, or a variant that is made of it."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from dispatch.config import MoeConfig, TileConfig
from dispatch.integration import IMPLEMENTATIONS, MemoryReport, quantize_experts, register, use_config
from producers.gate.plan import STOCK_FLOAT32, GateConfig

STOCK_EXPERTS = "eager"  # transformers' loop over experts: the modelling code's own forward
_NAMES = {kernel: name for name, kernel in IMPLEMENTATIONS.items()}
# The interpreter pays for each operation and hardly for its size. A step that divides the reduction needs no
# mask, and one of at most 512 keeps int8 products exact in float32.
_LEAST_BLOCK, _LARGEST_BLOCK, _LEAST_STEP = 16, 512, 64


@dataclass
class Candidate:
    """A model that runs as a configuration says, and what its experts' weights take.

    Attributes:
        model: on its device.
        memory: of the experts; None where they are as loaded.
    """

    model: Any
    memory: MemoryReport | None = None


class Candidates:
    """Makes the variants of one stock model, and puts it back as it was.

    Args:
        stock: a causal language model of transformers in bfloat16, on its device.
    """

    def __init__(self, stock: Any) -> None:
        register()
        self._stock = stock
        self._int8: Candidate | None = None

    @contextmanager
    def of(self, config: GateConfig) -> Iterator[Candidate]:
        """The model of ``config``, within the block.

        Raises:
            DispatchError: the model's layers are not what dispatch computes.
            OutOfMemoryError: a copy finds no room.
        """
        candidate = self._make(config)
        kernel = config.kernel
        candidate.model.set_experts_implementation(STOCK_EXPERTS if kernel is None else _NAMES[kernel])
        try:
            yield candidate
        finally:
            if candidate.model is self._stock:
                self._stock.set_experts_implementation(STOCK_EXPERTS)

    def _make(self, config: GateConfig) -> Candidate:
        if config.precision != "bf16":
            return self._quantized(config.precision)
        self._int8 = None  # the larger copies of float32 may need its room
        _collect()
        if config.reference == STOCK_FLOAT32:
            return Candidate(copy.deepcopy(self._stock).float())
        return Candidate(self._stock)

    def _quantized(self, precision: str) -> Candidate:
        if self._int8 is None:
            model = copy.deepcopy(self._stock)
            self._int8 = Candidate(model, quantize_experts(model, precision))
        else:
            quantize_experts(self._int8.model, precision)  # both formats store the same weights
        return self._int8


def _collect() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def tiles(layer: Any, rows: int, device: torch.device) -> AbstractContextManager[None]:
    """Tiles for calls of ``rows`` rows an expert: large ones under the interpreter, on a GPU what dispatch takes.

    Args:
        layer: one experts layer, with ``down_proj`` [E, H, I].
        rows: token slots of an expert, on average.
        device: where the model is.
    """
    if device.type != "cpu":
        return nullcontext()
    _, hidden, intermediate = layer.down_proj.shape
    height = min(_LARGEST_BLOCK, max(_LEAST_BLOCK, 1 << (rows - 1).bit_length()))
    gate_up = TileConfig(height, _block(intermediate), _step(hidden))
    down = TileConfig(height, _block(hidden), _step(intermediate))
    return use_config(MoeConfig(gate_up, down, "interpreter"))


def _block(channels: int) -> int:
    return min(_LARGEST_BLOCK, max(_LEAST_BLOCK, 1 << (channels - 1).bit_length()))


def _step(reduction: int) -> int:
    """The largest power of two up to 512 that divides ``reduction``; where that is small, a masked step."""
    divisor = min(_LARGEST_BLOCK, reduction & -reduction)
    return divisor if divisor >= _LEAST_STEP else _block(reduction)
