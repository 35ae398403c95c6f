"""One position: two decisions side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from producers.failures import Failure

# Bits of a drift's mantissa that are kept, the leading one included: three decimal digits. The rest is noise
# that does not compress, and most of what a gate would weigh in the lake.
_DRIFT_BITS = 11

Columns = dict[str, np.ndarray[Any, Any]]


def top1(logits: torch.Tensor) -> torch.Tensor:
    """Greedy decision: the lowest id of the largest logit, on every device (``argmax`` promises no order).

    Args:
        logits: [n, V].

    Returns:
        [n] int64.
    """
    ids = torch.arange(logits.shape[1], device=logits.device)
    largest = logits.amax(dim=1, keepdim=True)
    return torch.where(logits == largest, ids, logits.shape[1]).amin(dim=1)


def compare(
    reference: torch.Tensor,
    candidate: torch.Tensor,
    reference_hidden: torch.Tensor,
    candidate_hidden: torch.Tensor,
    targets: torch.Tensor,
) -> Columns:
    """Columns of ``gate_positions`` for n positions.

    Args:
        reference: [n, V] logits, in the model's type: ties are ties of that type.
        candidate: [n, V] likewise.
        reference_hidden: [L, n, H] states after each layer.
        candidate_hidden: [L, n, H].
        targets: [n] int64, the text's next tokens.

    Returns:
        target_token, reference_top1, candidate_top1 [n] int64; agree [n] bool; reference_gap_logits,
        reference_margin_logits, reference_nll, candidate_nll [n] float64; layer_drift [n, L] float64.

    Raises:
        Failure: ``nan-output`` or ``reference-not-finite``: logits or states with NaN or infinity.
    """
    for code, who, tensors in (
        ("reference-not-finite", "stock model", (reference, reference_hidden)),
        ("nan-output", "candidate", (candidate, candidate_hidden)),
    ):
        if not all(bool(torch.isfinite(t).all()) for t in tensors):
            raise Failure(code, f"the {who} gave logits or hidden states with NaN or infinity")
    wide = reference.float()
    decided, other = top1(reference), top1(candidate)
    at_decided, at_other = (wide.gather(1, ids[:, None])[:, 0] for ids in (decided, other))
    two = wide.topk(2, dim=1).values
    drift = [
        torch.linalg.vector_norm(c.float() - r.float(), dim=1) / torch.linalg.vector_norm(r.float(), dim=1)
        for r, c in zip(reference_hidden, candidate_hidden, strict=True)
    ]
    found = {
        "target_token": targets,
        "reference_top1": decided,
        "candidate_top1": other,
        "agree": decided == other,
        "reference_gap_logits": (at_decided - at_other).double(),
        "reference_margin_logits": (two[:, 0] - two[:, 1]).double(),
        "reference_nll": _nll(wide, targets),
        "candidate_nll": _nll(candidate.float(), targets),
        "layer_drift": torch.stack(drift, dim=1),
    }
    columns = {name: tensor.cpu().numpy() for name, tensor in found.items()}
    columns["layer_drift"] = shortened(columns["layer_drift"])
    return columns


def _nll(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """-log softmax(logits)[target], [n] float64, in natural logarithms."""
    return (torch.logsumexp(logits, dim=1) - logits.gather(1, targets[:, None])[:, 0]).double()


def shortened(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``values`` in float64, rounded to :data:`_DRIFT_BITS` bits of mantissa."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    rounded: np.ndarray[Any, Any] = np.ldexp(
        np.round(np.ldexp(mantissa, _DRIFT_BITS)), exponent - _DRIFT_BITS
    )
    return rounded
