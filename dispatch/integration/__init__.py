"""The kernels inside transformers' models, through its experts interface.

    from dispatch.integration import register
    register()
    model = AutoModelForCausalLM.from_pretrained(PATH, dtype="bfloat16", experts_implementation="dispatch")

docs/models.md says which layouts are honoured and which are refused. Importing this needs transformers;
importing :mod:`dispatch` does not.
"""

from dispatch.integration.counting import Calls, count_calls
from dispatch.integration.experts import IMPLEMENTATIONS, register, use_config
from dispatch.integration.quantized import LayerMemory, MemoryReport, quantize_experts

__all__ = [
    "IMPLEMENTATIONS",
    "Calls",
    "LayerMemory",
    "MemoryReport",
    "count_calls",
    "quantize_experts",
    "register",
    "use_config",
]
