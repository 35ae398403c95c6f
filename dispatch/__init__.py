"""Fused mixture-of-experts inference in Triton, with a reference beside it.

Importing this needs torch alone; the kernels need Triton on Linux and a CUDA device of compute capability
8.0 or newer, or Triton's interpreter (TRITON_INTERPRET=1).
"""

from dispatch.device import out_of_range_flag
from dispatch.eager import fused_moe_eager
from dispatch.errors import (
    CaptureError,
    ConfigError,
    DispatchError,
    InvalidInputError,
    LimitError,
    TritonUnavailableError,
    UnsupportedError,
)
from dispatch.moe import Plan, explain, fused_moe
from dispatch.precision import Precision
from dispatch.quantize import quantize_per_channel, quantize_per_token
from dispatch.reference import fused_moe_reference
from dispatch.routing import route_topk

__all__ = [
    "CaptureError",
    "ConfigError",
    "DispatchError",
    "InvalidInputError",
    "LimitError",
    "Plan",
    "Precision",
    "TritonUnavailableError",
    "UnsupportedError",
    "explain",
    "fused_moe",
    "fused_moe_eager",
    "fused_moe_reference",
    "out_of_range_flag",
    "quantize_per_channel",
    "quantize_per_token",
    "route_topk",
]
