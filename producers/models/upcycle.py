"""A dense Llama made into a mixture of experts, the same on every machine.

Sparse upcycling (Komatsuzaki et al., "Sparse Upcycling", ICLR 2023): each expert starts as a copy of the
dense layer's MLP. Copies alone would make routing irrelevant, and a gate run in such a model would not see
an expert taken for another. So seeded noise of a tenth of each matrix's spread is added, and the router is
seeded: the model stays a language model, and every expert matters.

All randomness is uniform and drawn on the CPU, in the order of the layers: 24-bit integers of a Mersenne
Twister, scaled by one rounded float. Normal numbers would go through log and cos, whose last bit differs
between vector instruction sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from producers.models.loaded import transformers

EXPERTS = 8
TOP_K = 2
NOISE = 0.1  # standard deviation of the noise over that of the matrix
ROUTER_STD = 0.02
RECIPE = f"upcycle-1: {EXPERTS} experts, top {TOP_K}, uniform noise {NOISE}, router {ROUTER_STD}"


def mixtral_config(dense: Any, experts: int = EXPERTS, top_k: int = TOP_K) -> Any:
    """The MixtralConfig of a Llama configuration, every MLP a mixture."""
    kept = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_act",
        "max_position_embeddings",
        "rms_norm_eps",
        "initializer_range",
        "rope_parameters",
        "tie_word_embeddings",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
    )
    values = {name: getattr(dense, name) for name in kept}
    return transformers().MixtralConfig(
        **values, num_local_experts=experts, num_experts_per_tok=top_k, sliding_window=None
    )


def mixtral_weights(
    dense: Mapping[str, torch.Tensor], config: Any, *, seed: int, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Weights of the mixture from those of the dense model, one at a time.

    Args:
        dense: a Llama state: ``model.layers.N.mlp.gate_proj.weight`` [I, H] float32, and so on.
        config: of :func:`mixtral_config`.
        seed: of noise and routers.
        dtype: of the weights given back. Sums are made in float32 and rounded once.

    Yields:
        Name and tensor, on the CPU: ``...mlp.experts.gate_up_proj`` [E, 2 I, H] with the gate's rows first,
        ``...mlp.experts.down_proj`` [E, H, I], ``...mlp.gate.weight`` [E, H], and all that the two share.
    """
    generator = torch.Generator().manual_seed(seed)
    experts = int(config.num_local_experts)
    for name, weight in dense.items():
        if ".mlp." not in name:
            yield name, weight.to(dtype)
    for layer in range(config.num_hidden_layers):
        mlp = f"model.layers.{layer}.mlp"
        yield f"{mlp}.gate.weight", _uniform((experts, config.hidden_size), ROUTER_STD, generator).to(dtype)
        gate, up, down = (dense[f"{mlp}.{part}_proj.weight"].float() for part in ("gate", "up", "down"))
        yield f"{mlp}.experts.gate_up_proj", _copies(torch.cat([gate, up]), experts, generator, dtype)
        yield f"{mlp}.experts.down_proj", _copies(down, experts, generator, dtype)


def _copies(
    weight: torch.Tensor, experts: int, generator: torch.Generator, dtype: torch.dtype
) -> torch.Tensor:
    """[experts, *weight.shape]: the weight, plus noise of its own in each copy."""
    # Rounded to 8 bits, so that the order in which a machine sums cannot reach the noise.
    spread = float(weight.double().std().to(torch.bfloat16))
    copies = torch.empty((experts, *weight.shape), dtype=dtype)
    for copy in copies:
        copy.copy_(weight + _uniform(tuple(weight.shape), NOISE * spread, generator))
    return copies


def _uniform(shape: tuple[int, ...], std: float, generator: torch.Generator) -> torch.Tensor:
    """Float32 numbers of mean zero and the standard deviation ``std``."""
    half_width = torch.tensor(math.sqrt(3.0) * std, dtype=torch.float32)
    return torch.empty(shape).uniform_(-1.0, 1.0, generator=generator) * half_width
