"""What the kernels are judged against: the definition, in float32 or float64, in plain torch."""

from __future__ import annotations

import torch

from dispatch.quantize import expert_matrix


def fused_moe_reference(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    w13_scale: torch.Tensor | None = None,
    w2_scale: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """``y[t] = sum_j topk_weights[t, j] * w2[e] @ (silu(gate) * up)``, ``[gate; up] = w13[e] @ x[t]``.

    Args:
        x: [M, H].
        w13: [E, 2 I, H], gate rows first; int8 with ``w13_scale``.
        w2: [E, H, I]; int8 with ``w2_scale``.
        topk_weights: [M, k].
        topk_ids: [M, k]; an id outside 0 .. E-1 contributes nothing.
        w13_scale: [E, 2 I] or [E, 2 I, 1].
        w2_scale: [E, H] or [E, H, 1].
        dtype: type of the computation and of the result, float32 or float64.

    Returns:
        [M, H] in ``dtype``. Nothing is rounded on the way: activations are never quantised, so the error
        of int8_w8a8 against this includes its activation quantisation.
    """
    wide = x.to(dtype)
    result = torch.zeros(x.shape, dtype=dtype, device=x.device)
    valid = (topk_ids >= 0) & (topk_ids < w13.shape[0])
    for expert in torch.unique(topk_ids[valid]).tolist():
        # One row for each slot of the expert: a token that names it twice has two.
        tokens, slots = torch.nonzero(topk_ids == expert, as_tuple=True)
        gate_up = wide[tokens] @ expert_matrix(w13, w13_scale, expert, dtype).T
        gate, up = gate_up.chunk(2, dim=-1)
        down = (torch.nn.functional.silu(gate) * up) @ expert_matrix(w2, w2_scale, expert, dtype).T
        result.index_add_(0, tokens, down * topk_weights[tokens, slots, None].to(dtype))
    return result
