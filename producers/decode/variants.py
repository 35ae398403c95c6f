"""The models that the configurations decode with: the stock model, and one with int8 experts."""

from __future__ import annotations

import copy
from typing import Any

from dispatch.integration import quantize_experts
from dispatch.integration.layers import experts_layers
from producers.decode.plan import BF16, DecodeConfig
from producers.models.load import use_experts


class Variants:
    """Makes the model of a configuration ready, whichever ran before.

    Args:
        stock: a mixture-of-experts model of transformers in bfloat16, on its device.
    """

    def __init__(self, stock: Any) -> None:
        self.stock = stock
        self._int8: Any = None

    def ready(self, config: DecodeConfig) -> Any:
        """The model of ``config``, its experts set to run as it says.

        Raises:
            DispatchError: the layers are not what dispatch computes.
            ModelError: transformers has no such implementation for this model.
            OutOfMemoryError: the copy of the experts finds no room.
        """
        if config.precision == BF16:
            use_experts(self.stock, config.experts)
            return self.stock
        if self._int8 is None:
            model = _with_own_experts(self.stock)
            quantize_experts(model, config.precision)
            self._int8 = model
        quantize_experts(self._int8, config.precision)  # both formats store the same weights
        use_experts(self._int8, config.experts)
        return self._int8


def _with_own_experts(model: Any) -> Any:
    """A copy that shares every weight but the experts'."""
    own = {id(p) for layer in experts_layers(model).values() for p in layer.parameters()}
    shared = {id(p): p for p in model.parameters() if id(p) not in own}
    return copy.deepcopy(model, shared)
