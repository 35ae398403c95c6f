"""The model of a configuration: the stock model itself, or a variant that is made of it."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from dispatch.integration import IMPLEMENTATIONS, MemoryReport, quantize_experts, register
from producers.gate.plan import STOCK_FLOAT32, GateConfig

STOCK_EXPERTS = "eager"  # transformers' loop over experts: the modelling code's own forward
_NAMES = {kernel: name for name, kernel in IMPLEMENTATIONS.items()}


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
