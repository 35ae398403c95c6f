"""int8 experts in place: the weights of a loaded model, quantised layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dispatch.errors import InvalidInputError, UnsupportedError
from dispatch.integration.experts import IMPLEMENTATIONS
from dispatch.integration.layers import ExpertsLayer, experts_layers, prepare_layer
from dispatch.precision import Precision
from dispatch.quantize import quantize_per_channel


@dataclass(frozen=True)
class LayerMemory:
    """Bytes of one layer's expert weights.

    Attributes:
        name: of the layer in the model.
        before_bytes: as loaded.
        after_bytes: int8 values and float32 scales.
    """

    name: str
    before_bytes: int
    after_bytes: int


@dataclass(frozen=True)
class MemoryReport:
    """What quantising the experts of a model freed.

    Attributes:
        precision: that the layers now run in.
        layers: in the model's order.
    """

    precision: Precision
    layers: tuple[LayerMemory, ...]

    @property
    def before_bytes(self) -> int:
        """Of all layers."""
        return sum(layer.before_bytes for layer in self.layers)

    @property
    def after_bytes(self) -> int:
        """Of all layers."""
        return sum(layer.after_bytes for layer in self.layers)

    def __str__(self) -> str:
        lines = [f"{'layer':<40} {'before (bytes)':>16} {'after (bytes)':>16}"]
        total = LayerMemory(f"total, {self.precision}", self.before_bytes, self.after_bytes)
        lines += [f"{m.name:<40} {m.before_bytes:>16} {m.after_bytes:>16}" for m in (*self.layers, total)]
        return "\n".join(lines)


class QuantizedExperts(nn.Module):
    """What a quantised layer becomes a subclass of: it runs on dispatch, and refuses every other name.

    transformers' own implementations would take the int8 values for weights.
    """

    dispatch_precision: str
    config: Any

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run the layer's own forward, if an implementation of dispatch is set.

        Raises:
            InvalidInputError: it is not.
        """
        asked = self.config._experts_implementation
        if asked not in IMPLEMENTATIONS:
            raise InvalidInputError(
                f"{type(self).__name__} holds int8 weights and experts_implementation is '{asked}': call "
                f"model.set_experts_implementation with one of {', '.join(IMPLEMENTATIONS)}, or load the "
                "model again."
            )
        result: torch.Tensor = super().forward(*args, **kwargs)
        return result

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:  # noqa: ARG002
        """Refuse: whoever loads the file would take the int8 values for weights and drop the scales."""
        raise InvalidInputError(
            f"{prefix or type(self).__name__} holds int8 weights, which no checkpoint format says: save the model "
            "before quantize_experts."
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:  # noqa: ARG002
        """Refuse: weights copied into int8 would be cut to whole numbers, under the scales of others."""
        raise InvalidInputError(
            f"{prefix or type(self).__name__} holds int8 weights and takes no others: load the weights before "
            "quantize_experts."
        )


def quantize_experts(model: nn.Module, precision: Precision | str) -> MemoryReport:
    """Turn the expert weights of ``model`` into int8 with a scale for each output channel, in place.

    The floating-point weights are freed layer by layer, so that the peak is one layer over the model's own
    size. A model that is int8 already only changes its precision: both formats store the same weights.

    Args:
        model: with layers on transformers' experts interface, in bfloat16 or float16.
        precision: ``int8_w8a16`` or ``int8_w8a8``.

    Returns:
        The bytes before and after.

    Raises:
        InvalidInputError: another precision, or a model without experts layers.
        UnsupportedError: a layer that dispatch does not compute, or weights with NaN or infinity; nothing is
            quantised then.
    """
    if precision not in {Precision.INT8_W8A16, Precision.INT8_W8A8}:
        raise InvalidInputError(
            f"precision '{precision}': experts are quantised to {Precision.INT8_W8A16} or {Precision.INT8_W8A8}."
        )
    layers = experts_layers(model)
    for name, layer in layers.items():
        prepare_layer(layer)
        _check_finite(name, layer)
    named = Precision(precision)
    return MemoryReport(named, tuple(_quantize(name, layer, named) for name, layer in layers.items()))


def _check_finite(name: str, layer: ExpertsLayer) -> None:
    """Refuse weights that no int8 value stands for; extrema need no second copy."""
    for attribute in ("gate_up_proj", "down_proj"):
        weight: torch.Tensor = getattr(layer, attribute).detach()
        if weight.is_floating_point() and not all(map(torch.isfinite, weight.aminmax())):
            raise UnsupportedError(f"{name}.{attribute} has NaN or infinity, which int8 cannot hold.")


def _quantize(name: str, layer: ExpertsLayer, precision: Precision) -> LayerMemory:
    before = _bytes(layer)
    if not isinstance(layer, QuantizedExperts):
        for attribute in ("gate_up_proj", "down_proj"):
            _quantize_weight(layer, attribute)
        layer.is_transposed = False
        own = type(layer)
        layer.__class__ = type(f"Quantized{own.__name__}", (QuantizedExperts, own), {})
    layer.dispatch_precision = str(precision)
    return LayerMemory(name, before, _bytes(layer))


@torch.no_grad()
def _quantize_weight(layer: ExpertsLayer, attribute: str) -> None:
    weight: torch.Tensor = getattr(layer, attribute)
    if layer.is_transposed:
        weight = weight.transpose(1, 2)
    values, scale = quantize_per_channel(weight.contiguous())
    setattr(layer, attribute, nn.Parameter(values, requires_grad=False))
    layer.register_buffer(f"{attribute}_scale", scale)


def _bytes(layer: ExpertsLayer) -> int:
    names = ("gate_up_proj", "down_proj", "gate_up_proj_scale", "down_proj_scale")
    held = (getattr(layer, name, None) for name in names)
    return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)
