"""Tiny seeded models of several families, and how close two runs of one must be."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SIZES: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "num_experts_per_tok": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # Logits of a few units, so that a wrong expert cannot hide.
    "initializer_range": 0.15,
}
LATENT: dict[str, Any] = {
    **SIZES,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "head_dim": 8,
    "routed_scaling_factor": 2.5,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "mixtral": {**SIZES, "num_local_experts": 6},
    "qwen2_moe": {
        **SIZES,
        "num_experts": 6,
        "moe_intermediate_size": 48,
        "shared_expert_intermediate_size": 56,
        "norm_topk_prob": False,
    },
    "qwen3_moe": {**SIZES, "num_experts": 6, "moe_intermediate_size": 48, "head_dim": 16},
    "olmoe": {**SIZES, "num_experts": 6},
    "deepseek_v2": {**LATENT, "topk_method": "greedy"},
    "deepseek_v3": {**LATENT, "n_group": 4, "topk_group": 2, "norm_topk_prob": True},
}


def make(family: str, device: torch.device, dtype: torch.dtype = torch.bfloat16, **changes: Any) -> Any:
    """Return a seeded model of a family without gradients."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **{**FAMILIES[family], **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager")
    return model.to(dtype).to(device).eval().requires_grad_(False)


def token_ids(device: torch.device, tokens: int = 9) -> torch.Tensor:
    """Return [2, tokens] token ids."""
    return torch.randint(3, 131, (2, tokens), generator=torch.Generator().manual_seed(5)).to(device)


def with_cache(output: Any) -> dict[str, Any]:
    """Return the argument that continues after ``output``; transformers 5.2x renamed it."""
    name = "cache" if "cache" in output else "past_key_values"
    return {name: output[name]}


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the Frobenius norm of the difference over that of what is expected."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())
