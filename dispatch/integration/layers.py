"""An experts layer of transformers: where a model has them, and what of their layout the kernels compute.

transformers marks a layer with :func:`transformers.integrations.moe.use_experts_implementation`, whose flags
say how its weights lie. A flag that is not understood here is refused by its name; nothing is guessed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dispatch.device import capturing
from dispatch.errors import CaptureError, InvalidInputError, UnsupportedError

# A module with what transformers' decorator and its modelling classes set; typed nowhere.
ExpertsLayer = Any

_TYPES = (torch.bfloat16, torch.float16, torch.int8)
_WEIGHTS_AXES = 3
# A gate and an up value each: where silu is curved, where it is flat, and beyond any limit that a model
# clamps at.
_PROBE = (-1e4, -60.0, -9.0, -2.5, -1.0, -0.25, 0.0, 0.25, 1.0, 2.5, 9.0, 60.0, 1e4)


def is_experts_layer(module: nn.Module) -> bool:
    """Whether transformers' experts interface runs this module."""
    return hasattr(module, "has_gate") and hasattr(module, "is_transposed") and hasattr(module, "num_experts")


def experts_layers(model: nn.Module) -> dict[str, ExpertsLayer]:
    """The experts layers of a model, by their names in it, in its order.

    Raises:
        InvalidInputError: it has none.
    """
    layers = {name: module for name, module in model.named_modules() if is_experts_layer(module)}
    if not layers:
        raise InvalidInputError(
            f"{type(model).__name__} has no layer on transformers' experts interface: it is no "
            "mixture-of-experts model, or its modelling code has a loop of its own."
        )
    return layers


def prepare_layer(layer: ExpertsLayer) -> None:
    """Refuse a layer that computes something else than ``w2 @ (silu(gate) * up)``; each layer is read once.

    A transposed layer ([E, H, 2 I] and [E, I, H]) gets its memory laid out anew, in place: its parameters keep
    their shapes and values, with other strides, and no second copy stays.

    Raises:
        UnsupportedError: names the layer's class and the flag, gate or type.
        CaptureError: the layer has not been read yet, and a CUDA graph is being captured.
    """
    if getattr(layer, "dispatch_ready", False):
        return
    _prepare(layer)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _prepare(layer: ExpertsLayer) -> None:
    name = type(layer).__name__
    _check_flags(layer, name)
    _check_weights(layer, name)
    if capturing(layer.gate_up_proj.device):
        raise CaptureError(f"{name}: the first call reads the layer; run the model once before capturing.")
    _check_gate(layer, name)
    if layer.is_transposed:
        for held in (layer.gate_up_proj, layer.down_proj):
            held.data = held.detach().transpose(1, 2).contiguous().transpose(1, 2)
    # Attributes that are not there cost a module's attribute search at every call.
    for attribute, value in (("_is_expert_parallel", False), ("dispatch_precision", None)):
        if not hasattr(layer, attribute):
            setattr(layer, attribute, value)
    layer.dispatch_ready = True


def dense_weights(layer: ExpertsLayer) -> tuple[torch.Tensor, torch.Tensor]:
    """w13 [E, 2 I, H] and w2 [E, H, I] of a prepared layer, each with a dense last axis."""
    if layer.is_transposed:
        return layer.gate_up_proj.transpose(1, 2), layer.down_proj.transpose(1, 2)
    return layer.gate_up_proj, layer.down_proj


def _check_flags(layer: ExpertsLayer, name: str) -> None:
    if not layer.has_gate:
        raise UnsupportedError(f"{name} has no gate (has_gate=False); dispatch computes gated experts only.")
    if not getattr(layer, "is_concatenated", True):
        raise UnsupportedError(
            f"{name} stores gate and up rows interleaved (is_concatenated=False); "
            "dispatch reads gate rows, then up rows."
        )
    # has_bias, has_post_expert_norm, and whatever a later transformers adds.
    for flag, value in vars(layer).items():
        if flag.startswith("has_") and flag != "has_gate" and value:
            raise UnsupportedError(f"{name} sets {flag}, which dispatch does not compute.")


def _check_weights(layer: ExpertsLayer, name: str) -> None:
    for attribute in ("gate_up_proj", "down_proj"):
        weight = getattr(layer, attribute, None)
        if not isinstance(weight, torch.Tensor) or type(weight) not in {torch.Tensor, nn.Parameter}:
            raise UnsupportedError(
                f"{name}.{attribute} is {type(weight).__name__}; dispatch reads plain tensors: "
                "load the model without a quantiser or a distributed plan of its own."
            )
        if weight.is_meta:
            raise UnsupportedError(
                f"{name}.{attribute} is on the meta device, where there is no data: load it."
            )
        if weight.dtype not in _TYPES or weight.ndim != _WEIGHTS_AXES:
            raise UnsupportedError(
                f"{name}.{attribute} is {str(weight.dtype).removeprefix('torch.')} {tuple(weight.shape)}; "
                "dispatch takes [E, N, K] in bfloat16 or float16, or int8 from quantize_experts: "
                "load the model with dtype=torch.bfloat16."
            )


def _check_gate(layer: ExpertsLayer, name: str) -> None:
    """Run the layer's own gate on a few numbers: names of activations and limits say less."""
    device: torch.device = layer.gate_up_proj.device
    values = torch.tensor(_PROBE, dtype=torch.float32)
    gate, up = values.repeat_interleave(len(values)), values.repeat(len(values))
    with torch.no_grad():
        found = layer._apply_gate(torch.cat([gate, up])[None].to(device))
    expected = (nn.functional.silu(gate) * up)[None].to(device)
    if found.shape != expected.shape or not torch.allclose(found.float(), expected, rtol=1e-5, atol=1e-6):
        activation = getattr(layer, "act_fn", None)
        own = getattr(activation, "__name__", type(activation).__name__)
        raise UnsupportedError(
            f"{name} does not compute silu(gate) * up, which is what dispatch computes: "
            f"its activation is {own}, its gate {type(layer)._apply_gate.__qualname__}."
        )
