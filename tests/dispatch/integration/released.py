"""The released DeepSeek-MoE's maths in plain torch, written from its modelling code, and its file format."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekForCausalLM"},
    "model_type": "deepseek",
    "torch_dtype": "bfloat16",
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 7,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
    "aux_loss_alpha": 0.001,
    "seq_aux": True,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": 64,
    "initializer_range": 0.02,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 500.0,
    "tie_word_embeddings": False,
    "use_cache": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def weights(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Draw a checkpoint with the released names, float32; norms are not one, so that they count."""
    generator = torch.Generator().manual_seed(seed)
    hidden = config["hidden_size"]

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * shape[-1] ** -0.5

    def norm() -> torch.Tensor:
        return 1 + 0.3 * torch.randn(hidden, generator=generator)

    def mlp(prefix: str, width: int) -> dict[str, torch.Tensor]:
        return {
            f"{prefix}.gate_proj.weight": draw(width, hidden),
            f"{prefix}.up_proj.weight": draw(width, hidden),
            f"{prefix}.down_proj.weight": draw(hidden, width),
        }

    found = {
        "model.embed_tokens.weight": torch.randn(config["vocab_size"], hidden, generator=generator),
        "model.norm.weight": norm(),
        "lm_head.weight": draw(config["vocab_size"], hidden),
    }
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        found |= {f"{layer}.self_attn.{name}_proj.weight": 2 * draw(hidden, hidden) for name in "qkvo"}
        found |= {f"{layer}.{name}_layernorm.weight": norm() for name in ("input", "post_attention")}
        if not has_experts(config, number):
            found |= mlp(f"{layer}.mlp", config["intermediate_size"])
            continue
        width = config["moe_intermediate_size"]
        found[f"{layer}.mlp.gate.weight"] = 3 * draw(config["n_routed_experts"], hidden)
        for expert in range(config["n_routed_experts"]):
            found |= mlp(f"{layer}.mlp.experts.{expert}", width)
        if config["n_shared_experts"]:
            found |= mlp(f"{layer}.mlp.shared_experts", width * config["n_shared_experts"])
    return found


def save(folder: Path, config: dict[str, Any], checkpoint: dict[str, torch.Tensor]) -> Path:
    """Write a checkpoint folder as released."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(
        {k: v.contiguous() for k, v in checkpoint.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    return folder


def has_experts(config: dict[str, Any], layer: int) -> bool:
    """Return whether the layer has routed experts."""
    return layer >= config["first_k_dense_replace"] and layer % config["moe_layer_freq"] == 0


def logits(config: dict[str, Any], w: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """Compute [T, vocabulary] logits of one sequence [T] in float64, token by token and expert by expert."""
    w = {name: weight.double() for name, weight in w.items()}
    x = w["model.embed_tokens.weight"][ids]
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        x = x + _attention(
            config, w, f"{layer}.self_attn", _norm(config, x, w[f"{layer}.input_layernorm.weight"])
        )
        normed = _norm(config, x, w[f"{layer}.post_attention_layernorm.weight"])
        experts = has_experts(config, number)
        x = x + (_experts(config, w, layer, normed) if experts else _mlp(w, f"{layer}.mlp", normed))
    return _norm(config, x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def _norm(config: dict[str, Any], x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + config["rms_norm_eps"]) * weight


def _mlp(w: dict[str, torch.Tensor], prefix: str, x: torch.Tensor) -> torch.Tensor:
    gate, up = x @ w[f"{prefix}.gate_proj.weight"].T, x @ w[f"{prefix}.up_proj.weight"].T
    return (F.silu(gate) * up) @ w[f"{prefix}.down_proj.weight"].T


def _experts(config: dict[str, Any], w: dict[str, torch.Tensor], layer: str, x: torch.Tensor) -> torch.Tensor:
    scores = torch.softmax(x @ w[f"{layer}.mlp.gate.weight"].T, dim=-1)
    result = torch.zeros_like(x)
    for token in range(len(x)):
        best = sorted(range(config["n_routed_experts"]), key=lambda e: -scores[token, e].item())
        chosen = best[: config["num_experts_per_tok"]]
        total = sum(scores[token, e] for e in chosen) if config["norm_topk_prob"] else 1.0
        for expert in chosen:
            share = _mlp(w, f"{layer}.mlp.experts.{expert}", x[token : token + 1])[0]
            result[token] += scores[token, expert] / total * share
    if config["n_shared_experts"]:
        result += _mlp(w, f"{layer}.mlp.shared_experts", x)
    return result


def _attention(
    config: dict[str, Any], w: dict[str, torch.Tensor], prefix: str, x: torch.Tensor
) -> torch.Tensor:
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads
    q, k, v = ((x @ w[f"{prefix}.{name}_proj.weight"].T).view(len(x), heads, width) for name in "qkv")
    angles = torch.outer(
        torch.arange(len(x), dtype=torch.float64),
        config["rope_theta"] ** -(torch.arange(0, width, 2, dtype=torch.float64) / width),
    )
    q, k = (_rotate(t, angles.cos()[:, None], angles.sin()[:, None]) for t in (q, k))
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(width)
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(future, -math.inf).softmax(-1), v)
    return mixed.reshape(len(x), -1) @ w[f"{prefix}.o_proj.weight"].T


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
