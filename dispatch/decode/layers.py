"""The weights of a decoder as the fused step reads them, taken from a model of transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dispatch.errors import UnsupportedError
from dispatch.integration.layers import dense_weights, is_experts_layer, prepare_layer
from dispatch.precision import Precision
from dispatch.quantize import quantize_per_channel

Tensor = torch.Tensor


@dataclass(frozen=True)
class Router:
    """How a layer chooses its experts.

    Attributes:
        weight: [E, H].
        top_k: k.
        renormalize: scale the k weights to sum to one.
        epsilon: added to that sum.
    """

    weight: Tensor
    top_k: int
    renormalize: bool
    epsilon: float = 0.0


@dataclass(frozen=True)
class Experts:
    """Experts of a layer, shared ones behind the routed ones.

    Attributes:
        w13: [E + S, 2 I, H], gate rows first.
        w2: [E + S, H, I].
        w13_scale, w2_scale: [E + S, 2 I] and [E + S, H] float32 with int8 weights, else None.
        shared: S.
        precision: None where the weights' type says it.
    """

    w13: Tensor
    w2: Tensor
    w13_scale: Tensor | None
    w2_scale: Tensor | None
    shared: int
    precision: Precision | None


@dataclass(frozen=True)
class Dense:
    """A dense MLP: w13 [2 I, H], gate rows first, and w2 [H, I]."""

    w13: Tensor
    w2: Tensor


@dataclass(frozen=True)
class Layer:
    """One decoder layer.

    Attributes:
        norm, mlp_norm: [H], with ``epsilon``.
        qkv: [(heads + 2 key heads) D, H].
        o: [H, heads D].
        router, experts: of a layer with experts.
        dense: of one without.
    """

    norm: Tensor
    mlp_norm: Tensor
    qkv: Tensor
    o: Tensor
    router: Router | None
    experts: Experts | None
    dense: Dense | None


def _mixtral_router(gate: Any) -> Router:
    return Router(gate.weight, int(gate.top_k), renormalize=True)


def _deepseek_router(gate: Any) -> Router:
    return Router(gate.weight, int(gate.top_k), bool(gate.renormalize), epsilon=1e-20)


# The models whose layers are known to be what the kernels compute -> how their router chooses.
_ROUTERS: dict[str, Callable[[Any], Router]] = {
    "MixtralForCausalLM": _mixtral_router,
    "DeepseekForCausalLM": _deepseek_router,
}


def read_layers(model: Any) -> list[Layer]:
    """The layers of a model; matrices that are read together are copied beside each other.

    Raises:
        UnsupportedError: another model, or a layer of it that the kernels do not compute; named.
    """
    name = type(model).__name__
    if name not in _ROUTERS:
        raise UnsupportedError(
            f"{name} has no fused decode step; {', '.join(_ROUTERS)} have: decode with dispatch under "
            "transformers' own layers."
        )
    if getattr(model.config, "sliding_window", None) is not None:
        raise UnsupportedError(f"{name} has a sliding window, which the fused decode step does not compute.")
    head = int(model.model.layers[0].self_attn.head_dim)
    if head & (head - 1):
        raise UnsupportedError(f"{name} has heads of {head}; the fused decode step takes powers of two.")
    return [_layer(layer, _ROUTERS[name]) for layer in model.model.layers]


def _layer(layer: Any, router: Callable[[Any], Router]) -> Layer:
    attention = layer.self_attn
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    for projection in (*projections, attention.o_proj):
        if projection.bias is not None:
            raise UnsupportedError("a projection of attention has a bias, which the fused step does not add.")
    mlp = layer.mlp
    with_experts = is_experts_layer(getattr(mlp, "experts", mlp))
    return Layer(
        norm=layer.input_layernorm.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        qkv=torch.cat([projection.weight for projection in projections]),
        o=attention.o_proj.weight,
        router=router(mlp.gate) if with_experts else None,
        experts=_experts(mlp.experts, getattr(mlp, "shared_experts", None)) if with_experts else None,
        dense=None if with_experts else _dense(mlp),
    )


def _dense(mlp: Any) -> Dense:
    return Dense(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]), mlp.down_proj.weight)


def _experts(layer: Any, shared: Any) -> Experts:
    prepare_layer(layer)
    w13, w2 = dense_weights(layer)
    precision: Precision | None = getattr(layer, "dispatch_precision", None)
    quantized = precision is not None
    w13_scale = layer.gate_up_proj_scale if quantized else None
    w2_scale = layer.down_proj_scale if quantized else None
    count = 0
    if shared is not None:
        # An MLP of S I channels is S experts of I channels whose outputs add up.
        count = shared.gate_proj.weight.shape[0] // w2.shape[2]
        gate, up = (part.weight.unflatten(0, (count, -1)) for part in (shared.gate_proj, shared.up_proj))
        w13, w13_scale = _join(w13, w13_scale, torch.cat([gate, up], dim=1))
        w2, w2_scale = _join(w2, w2_scale, shared.down_proj.weight.unflatten(1, (count, -1)).transpose(0, 1))
    return Experts(w13, w2, w13_scale, w2_scale, count, precision)


def _join(weight: Tensor, scale: Tensor | None, more: Tensor) -> tuple[Tensor, Tensor | None]:
    """Experts [E, N, K] and further ones [S, N, K] of floating point, quantised if the first are."""
    if scale is None:
        return torch.cat([weight, more]), None
    values, more_scale = quantize_per_channel(more)
    return torch.cat([weight, values]), torch.cat([scale, more_scale])
