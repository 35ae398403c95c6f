"""One expert alone beside the stock expert: what a few wrong numbers in one of many experts look like.

Over a whole model one expert's error drowns in rounding: it serves a part of the tokens, its output is a part
of the layer's, and the layer's a part of the state. Alone it shows. Rounding is zero on average over an
output, so the factor between the two outputs, their regression coefficient <out, stock> / <stock, stock>, is
known far better than a single number: a scale that is off by two per cent stands far outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from dispatch.integration.layers import experts_layers
from producers.failures import Failure

# States of each layer that its experts are tried on.
TOKENS = 16
# Not 1: an expert that forgets its router weight is to be seen.
_WEIGHT = 0.75


@dataclass
class Probe:
    """What one layer's experts are tried on, and what stock's made of it.

    Attributes:
        states: [m, H], inputs that the layer had in the stock model.
        weights_dtype: of the router weights that it had.
        outputs: [E, m, H] float32, of each stock expert for every state.
    """

    states: torch.Tensor
    weights_dtype: torch.dtype
    outputs: torch.Tensor


@contextmanager
def watch(model: Any) -> Iterator[dict[str, tuple[torch.Tensor, torch.dtype]]]:
    """Collect states of every experts layer in this block: layer name -> [m, H], evenly spaced, and a type."""
    seen: dict[str, tuple[torch.Tensor, torch.dtype]] = {}
    handles = []

    def hook(name: str) -> Any:
        def before(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if name not in seen:
                states, _ids, weights = (*arguments, *named.values())
                step = max(1, states.shape[0] // TOKENS)
                seen[name] = (states[::step][:TOKENS].detach().clone(), weights.dtype)

        return before

    try:
        for name, layer in experts_layers(model).items():
            handles.append(layer.register_forward_pre_hook(hook(name), with_kwargs=True))
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def stock(model: Any, seen: dict[str, tuple[torch.Tensor, torch.dtype]]) -> dict[str, Probe]:
    """Probes of every layer, answered by ``model``, which runs its own experts."""
    layers = experts_layers(model)
    return {
        name: Probe(states, dtype, outputs(layers[name], states, dtype))
        for name, (states, dtype) in seen.items()
    }


def outputs(layer: Any, states: torch.Tensor, weights_dtype: torch.dtype) -> torch.Tensor:
    """What each expert of ``layer`` makes of every state, [E, m, H] float32; one call with k = 1."""
    experts, tokens = int(layer.num_experts), states.shape[0]
    ids = torch.arange(experts, device=states.device).repeat_interleave(tokens)[:, None]
    weights = torch.full(ids.shape, _WEIGHT, dtype=weights_dtype, device=states.device)
    found: torch.Tensor = layer(states.repeat(experts, 1), ids, weights)
    return found.float().view(experts, tokens, -1)


def judge(reference: torch.Tensor, candidate: torch.Tensor) -> list[dict[str, float]]:
    """relative_error and gain of each expert, as in ``gate_experts``.

    Of each token the ratio to its own output, then over tokens the root mean square of the errors and the median
    of the gains: trained models have a few tokens with states a hundred times as large, which would decide alone,
    and which int8 rounds most coarsely. Where stock's output is zero there is no ratio: zero is then exact, any
    other output wholly wrong.

    Args:
        reference: [E, m, H] float32.
        candidate: [E, m, H] float32.

    Raises:
        Failure: ``nan-output``.
    """
    if not bool(torch.isfinite(candidate).all()):
        raise Failure("nan-output", "an expert gave NaN or infinity for a state that the stock model had")
    r, c = reference.double(), candidate.double()
    power, off = (r * r).sum(2), torch.linalg.vector_norm(c - r, dim=2)
    known = power > 0
    error = torch.where(known, off / power.sqrt(), (off > 0).double()).square().mean(1).sqrt()
    gain = torch.where(known, (c * r).sum(2) / power, (off == 0).double()).quantile(0.5, dim=1)
    return [{"relative_error": e, "gain": g} for e, g in zip(error.tolist(), gain.tolist(), strict=True)]
