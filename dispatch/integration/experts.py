"""The implementations that transformers calls by name.

A forward of the interface gets the layer, hidden states [M, H], ids and router weights [M, k]. Nothing here
synchronises with the host or depends on a value, so it can be captured in a CUDA graph after one call with
the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import library
from transformers.integrations.moe import ExpertsInterface

from dispatch.config import MoeConfig
from dispatch.integration.layers import ExpertsLayer, dense_weights, prepare_layer
from dispatch.moe import fused_moe

ExpertsForward = Callable[[ExpertsLayer, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# What `experts_implementation` may say -> the kernel that dispatch is asked for.
IMPLEMENTATIONS = {"dispatch": "auto", "dispatch_naive": "naive", "dispatch_persistent": "persistent"}

_config: ContextVar[MoeConfig | None] = ContextVar("dispatch_config", default=None)


def register() -> tuple[str, ...]:
    """Make the names of :data:`IMPLEMENTATIONS` known to transformers; calling it again changes nothing.

    Returns:
        The names that ``experts_implementation`` may say.
    """
    for name, forward in _FORWARDS.items():
        ExpertsInterface.register(name, forward)
    return tuple(IMPLEMENTATIONS)


@contextmanager
def use_config(config: MoeConfig) -> Iterator[None]:
    """Run the models' calls in this block with these tiles: for ``naive`` and ``persistent`` kernels.

    The interpreter pays for each operation and hardly for its size, so large tiles make it bearable; on a GPU
    it is for trying tiles. The first forward raises :class:`dispatch.ConfigError` for tiles that cannot run.
    """
    token = _config.set(config)
    try:
        yield
    finally:
        _config.reset(token)


def _forward(kernel: str) -> ExpertsForward:
    def forward(
        layer: ExpertsLayer,
        hidden_states: torch.Tensor,
        top_k_index: torch.Tensor,
        top_k_weights: torch.Tensor,
    ) -> torch.Tensor:
        prepare_layer(layer)
        w13, w2 = dense_weights(layer)
        if layer._is_expert_parallel:
            # transformers marks a choice whose expert another rank holds by id E. To fused_moe that is out of
            # range, dropped and flagged; -1 is dropped without the flag, which stays for real faults.
            top_k_index = top_k_index.masked_fill(top_k_index >= w13.shape[0], -1)
        precision: str | None = layer.dispatch_precision  # and the scales beside it, by quantize_experts
        w13_scale = layer.gate_up_proj_scale if precision else None
        w2_scale = layer.down_proj_scale if precision else None
        run = _opaque if torch.compiler.is_compiling() else _run
        return run(
            hidden_states, w13, w2, top_k_weights.float(), top_k_index, w13_scale, w2_scale, kernel, precision
        )

    return forward


def _run(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13_scale: torch.Tensor | None,
    w2_scale: torch.Tensor | None,
    kernel: str,
    precision: str | None,
) -> torch.Tensor:
    return fused_moe(
        x,
        w13,
        w2,
        topk_weights,
        topk_ids,
        kernel=kernel,
        precision=precision,
        w13_scale=w13_scale,
        w2_scale=w2_scale,
        config=_config.get(),
    )


# What torch.compile sees: one operation that it does not look into. Outside of it, going through the registry
# of operations would only cost time.
_opaque = library.custom_op("dispatch::fused_moe", _run, mutates_args=())


@_opaque.register_fake
def _shape(x: torch.Tensor, *_: object) -> torch.Tensor:
    return x.new_empty(x.shape)


_FORWARDS = {name: _forward(kernel) for name, kernel in IMPLEMENTATIONS.items()}
