"""Models of seeded weights: a tiny one for tests, and the full dimensions of DeepSeek-MoE-16B for scale."""

from __future__ import annotations

from typing import Any

import torch

from producers.models.loaded import (
    HashedWords,
    LoadedModel,
    ModelError,
    ModelFacts,
    config_sha256,
    inference,
    parameters_of,
    sha256_of_json,
    transformers,
)

_TINY = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 512,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
_TINY_STD = 0.2  # at 64 columns logits some units apart; transformers' 0.02 would leave them almost equal


def tiny_mixtral(*, device: torch.device, dtype: torch.dtype, seed: int) -> LoadedModel:
    """A Mixtral with two layers of four experts; drawn on the CPU, so equal on every device."""
    config = transformers().MixtralConfig(**_TINY, initializer_range=_TINY_STD)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers().MixtralForCausalLM(config)
    return _loaded("tiny-mixtral", model.to(device=device, dtype=dtype), seed, torch.device("cpu"))


def deepseek_moe_16b(*, device: torch.device, dtype: torch.dtype, seed: int) -> LoadedModel:
    """The dimensions of DeepSeek-MoE-16B, weights normal with standard deviation 0.02, drawn on ``device``.

    No trained weights and no tokenizer: it shows cost and numerical agreement at scale, and no language.

    Raises:
        ModelError: ``device`` is the CPU, where 16 billion seeded weights are of no use.
    """
    if device.type != "cuda":
        raise ModelError(
            "deepseek-moe-16b is built on a CUDA device (33 GB in bfloat16): pass --device cuda, or take "
            "upcycled-smollm2 on a CPU."
        )
    from dispatch.integration import deepseek  # noqa: PLC0415 - needs Triton

    model = deepseek.build(seed=seed, dtype=dtype, device=device)
    return _loaded("deepseek-moe-16b", model, seed, device)


def _loaded(name: str, model: Any, seed: int, drawn_on: torch.device) -> LoadedModel:
    config_hash = config_sha256(model.config)
    recipe = {"config": config_hash, "seed": seed, "generator": drawn_on.type, "recipe": 1}
    facts = ModelFacts(
        name=name,
        weights="seeded",
        tokenizer="hashed",
        config_sha256=config_hash,
        weights_sha256=sha256_of_json(recipe),
        parameters=parameters_of(model),
    )
    return LoadedModel(inference(model), HashedWords(int(model.config.vocab_size)), facts)
