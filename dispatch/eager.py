"""The per-expert loop of stock models: what runs where no fused kernel is installed."""

from __future__ import annotations

import torch

from dispatch.quantize import expert_matrix


def fused_moe_eager(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    w13_scale: torch.Tensor | None = None,
    w2_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same function as :func:`dispatch.fused_moe`, one expert after the other, in the type of ``x``.

    It reads the ids on the host, so it cannot be captured in a CUDA graph. Rounding is that of stock
    models: each projection's result, and each expert's weighted share, in the type of ``x``.

    Args:
        x: [M, H].
        w13: [E, 2 I, H], gate rows first; int8 with ``w13_scale``.
        w2: [E, H, I]; int8 with ``w2_scale``.
        topk_weights: [M, k].
        topk_ids: [M, k]; an id outside 0 .. E-1 contributes nothing.
        w13_scale: [E, 2 I] or [E, 2 I, 1].
        w2_scale: [E, H] or [E, H, 1].

    Returns:
        [M, H] in the type of ``x``.
    """
    result = torch.zeros_like(x)
    valid = (topk_ids >= 0) & (topk_ids < w13.shape[0])
    for expert in torch.unique(topk_ids[valid]).tolist():
        tokens, slots = torch.nonzero(topk_ids == expert, as_tuple=True)
        gate_rows = expert_matrix(w13, w13_scale, expert, x.dtype)
        down_rows = expert_matrix(w2, w2_scale, expert, x.dtype)
        gate, up = torch.nn.functional.linear(x[tokens], gate_rows).chunk(2, dim=-1)
        down = torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, down_rows)
        result.index_add_(0, tokens, down * topk_weights[tokens, slots, None].to(x.dtype))
    return result
