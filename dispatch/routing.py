"""From router logits to expert ids and weights."""

from __future__ import annotations

import torch

from dispatch.errors import InvalidInputError


def route_topk(logits: torch.Tensor, k: int, renormalize: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over all experts, then the k most probable ones of each token.

    Args:
        logits: [M, E], floating point; the softmax is computed in float32.
        k: experts a token, 1 to E.
        renormalize: scale the k weights of a token to sum to one (Mixtral, Qwen3); without it they are the
            softmax's own values (DeepSeek-MoE).

    Returns:
        topk_weights [M, k] float32, largest first, and topk_ids [M, k] int32. Equal logits go to the lower
        expert id, on every device alike.

    Raises:
        InvalidInputError: the logits are no matrix, or k is out of range.
    """
    if logits.ndim != 2:  # noqa: PLR2004 - a matrix
        raise InvalidInputError(f"logits have shape {tuple(logits.shape)}; they must be [M, E].")
    experts = logits.shape[1]
    if not 1 <= k <= experts:
        raise InvalidInputError(f"k is {k}; a token can go to 1 to {experts} experts.")
    probabilities = torch.softmax(logits.float(), dim=-1)
    # torch.topk leaves the order of equal values open; a stable sort does not.
    weights, ids = torch.sort(probabilities, dim=-1, descending=True, stable=True)
    weights, ids = weights[:, :k].contiguous(), ids[:, :k].to(torch.int32).contiguous()
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids
