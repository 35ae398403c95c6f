"""``DeepseekForCausalLM``: Llama's decoder with experts, on transformers' experts interface.

The maths is that of ``modeling_deepseek.py`` in the released checkpoint, inference only: no auxiliary loss.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import torch
from torch import nn
from transformers import LlamaForCausalLM, initialization
from transformers.models.llama.modeling_llama import LlamaModel, LlamaPreTrainedModel
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeExperts, Qwen2MoeMLP

from dispatch.integration.deepseek.configuration import DeepseekConfig


class DeepseekRouter(nn.Module):
    """Softmax over all experts in float32, then the k most probable."""

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.renormalize = config.norm_topk_prob
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size))

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Router weights [M, k] float32 and expert ids [M, k] int64 of hidden states [M, H]."""
        logits = nn.functional.linear(hidden_states, self.weight)
        probabilities = logits.softmax(dim=-1, dtype=torch.float32)
        weights, ids = torch.topk(probabilities, self.top_k, dim=-1, sorted=False)
        if self.renormalize:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return weights, ids


class DeepseekMoE(nn.Module):
    """Routed experts, plus one MLP that is all shared experts side by side."""

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__()
        self.gate = DeepseekRouter(config)
        self.experts = Qwen2MoeExperts(config)
        self.shared_experts = None
        if config.n_shared_experts:
            self.shared_experts = Qwen2MoeMLP(config, config.moe_intermediate_size * config.n_shared_experts)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, H] to the same."""
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        weights, ids = self.gate(rows)
        routed: torch.Tensor = self.experts(rows, ids, weights)
        if self.shared_experts is not None:
            routed = routed + self.shared_experts(rows)
        return routed.view_as(hidden_states)


class DeepseekPreTrainedModel(LlamaPreTrainedModel):
    """What the model with and without its head share."""

    config_class = DeepseekConfig

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        """Yes: transformers looks for its decorator in this file, and the experts are of another one."""
        return True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        std = self.config.initializer_range
        if isinstance(module, Qwen2MoeExperts):
            initialization.normal_(module.gate_up_proj, mean=0.0, std=std)
            initialization.normal_(module.down_proj, mean=0.0, std=std)
        elif isinstance(module, DeepseekRouter):
            initialization.normal_(module.weight, mean=0.0, std=std)


class DeepseekModel(DeepseekPreTrainedModel, LlamaModel):
    """The decoder."""

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__(config)
        for number, layer in enumerate(self.layers):
            if config.has_experts(number):
                layer.mlp = DeepseekMoE(config)
        self.post_init()


class DeepseekForCausalLM(DeepseekPreTrainedModel, LlamaForCausalLM):
    """The first DeepSeek-MoE with its language-model head."""

    def __init__(self, config: DeepseekConfig) -> None:
        LlamaPreTrainedModel.__init__(self, config)  # LlamaForCausalLM's own would make a dense decoder first
        self.model = DeepseekModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
