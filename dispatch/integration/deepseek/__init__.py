"""The first DeepSeek-MoE (``DeepseekForCausalLM``, 2024), which transformers does not have.

    from dispatch.integration import deepseek, register
    register()
    model = deepseek.load(PATH, dtype=torch.bfloat16, device="cuda", experts_implementation="dispatch")
    model = deepseek.build(seed=0, device="cuda")        # the 16B dimensions, seeded weights

Plain multi-head attention, dense first layers, shared experts, softmax over all experts and the weights of
the chosen ones as they are. Importing this also teaches transformers' Auto classes the model type.
"""

from dispatch.integration.deepseek.configuration import DEEPSEEK_MOE_16B, DeepseekConfig, as_deepseek_v2
from dispatch.integration.deepseek.loading import build, load
from dispatch.integration.deepseek.modeling import DeepseekForCausalLM

__all__ = ["DEEPSEEK_MOE_16B", "DeepseekConfig", "DeepseekForCausalLM", "as_deepseek_v2", "build", "load"]
