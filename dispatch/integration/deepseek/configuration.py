"""The configuration of the first DeepSeek-MoE, and its translation for tools that know only the second."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import LlamaConfig

from dispatch.errors import UnsupportedError

# deepseek-ai/deepseek-moe-16b-base, config.json.
DEEPSEEK_MOE_16B: Mapping[str, Any] = {
    "vocab_size": 102_400,
    "hidden_size": 2048,
    "intermediate_size": 10_944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_shared_experts": 2,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "bos_token_id": 100_000,
    "eos_token_id": 100_001,
    "tie_word_embeddings": False,
}
# What the released modelling code computes -> values under which later DeepSeek configurations mean the same.
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "scoring_func": (None, "softmax"),
    "topk_method": (None, "greedy"),
    "routed_scaling_factor": (None, 1),
    "n_group": (None, 1),
    "q_lora_rank": (None,),
    "kv_lora_rank": (None, 0),
    "qk_nope_head_dim": (None, 0),
    "qk_rope_head_dim": (None, 0),
}


class DeepseekConfig(LlamaConfig):
    """What ``config.json`` of a ``DeepseekForCausalLM`` says: Llama's fields, and those of the experts.

    Attributes:
        moe_intermediate_size: I of a routed expert; a shared one has as many.
        n_routed_experts: E.
        n_shared_experts: experts that see every token; None or 0: none.
        num_experts_per_tok: k.
        first_k_dense_replace: layers at the start that have a dense MLP of ``intermediate_size``.
        moe_layer_freq: of the others, every how many-th (by its number) has experts.
        norm_topk_prob: scale the k router weights to sum to one.
    """

    model_type = "deepseek"
    attribute_map = {"num_experts": "n_routed_experts"}  # noqa: RUF012 - as transformers declares it

    moe_intermediate_size: int = 1408
    n_routed_experts: int = 64
    n_shared_experts: int | None = None
    num_experts_per_tok: int = 6
    first_k_dense_replace: int = 0
    moe_layer_freq: int = 1
    norm_topk_prob: bool = False

    def has_experts(self, layer: int) -> bool:
        """Whether the layer of this number has experts in place of a dense MLP."""
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0


def read_config(fields: Mapping[str, Any]) -> DeepseekConfig:
    """The configuration of a checkpoint's ``config.json``.

    Raises:
        UnsupportedError: no experts, or something that the first DeepSeek-MoE does not compute; named.
    """
    if fields.get("n_routed_experts") is None:
        raise UnsupportedError(
            "config.json has no n_routed_experts: a dense DeepSeek model is a Llama, which transformers loads."
        )
    for name, values in _PLAIN.items():
        if fields.get(name) not in values:
            raise UnsupportedError(
                f"config.json has {name} {fields[name]!r}, which the first DeepSeek-MoE does not have: "
                "load DeepSeek-V2 and V3 with transformers itself."
            )
    # The type in the file may be another (tools without this class are given "llama"); code to download never.
    dropped = {"model_type", "auto_map", *_PLAIN}
    return DeepseekConfig(**{name: value for name, value in fields.items() if name not in dropped})


def as_deepseek_v2(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``config.json`` for a tool that knows ``DeepseekV2ForCausalLM`` only; the weights stay as they are.

    vLLM builds plain multi-head attention where both query-key dimensions of latent attention are 0, and one
    group of experts with greedy choice and scale 1 is the first model's routing. The model type is Llama's,
    which every transformers reads without downloaded code and whose class keeps unknown fields.

    Args:
        fields: of the released ``config.json``; not changed.

    Raises:
        UnsupportedError: as for a checkpoint that is loaded.
    """
    read_config(fields)
    return {
        **{name: value for name, value in fields.items() if name != "auto_map"},
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "llama",
        "qk_nope_head_dim": 0,
        "qk_rope_head_dim": 0,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "scoring_func": "softmax",
        "routed_scaling_factor": 1.0,
    }
