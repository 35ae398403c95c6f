"""The device of a call: what it is, whether kernels run on it, whether a graph is being captured."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

import torch

from dispatch.config import DeviceFacts
from dispatch.errors import TritonUnavailableError, UnsupportedError

INTERPRETER = "cpu-interpreter"
_LEAST_CAPABILITY = (8, 0)
_FLAGS: dict[torch.device, torch.Tensor] = {}


@cache
def device_facts(device: torch.device) -> DeviceFacts:
    """Facts of a CUDA device, or of the interpreter (TRITON_INTERPRET=1).

    Raises:
        TritonUnavailableError: neither a CUDA device nor the interpreter.
        UnsupportedError: the device is older than compute capability 8.0.
    """
    if _interpreting():
        return DeviceFacts(INTERPRETER, (0, 0), 1)
    if device.type != "cuda":
        raise TritonUnavailableError(
            f"x is on {device}, where no Triton kernel runs: move the tensors to a CUDA device, or set "
            "TRITON_INTERPRET=1 before Python starts to interpret the kernels."
        )
    properties = torch.cuda.get_device_properties(device)
    capability = (properties.major, properties.minor)
    if capability < _LEAST_CAPABILITY:
        raise UnsupportedError(
            f"{properties.name} has compute capability {capability[0]}.{capability[1]}; "
            "the kernels need 8.0 or newer."
        )
    return DeviceFacts(properties.name, capability, properties.multi_processor_count)


def _interpreting() -> bool:
    if importlib.util.find_spec("triton") is None:
        return False
    return bool(importlib.import_module("triton").knobs.runtime.interpret)


def capturing(device: torch.device) -> bool:
    """Whether the current stream is being captured into a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def out_of_range_flag(device: torch.device | str) -> torch.Tensor:
    """The flag of a device that kernels set to 1 when they drop an id of E or larger.

    It is one int32 [1] for the life of the process; it stays set until the caller zeroes it::

        flag = dispatch.out_of_range_flag(x.device)
        graph.replay()
        if flag.item():        # the one synchronisation, after the work
            flag.zero_()
            ...
    """
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if device not in _FLAGS:
        _FLAGS[device] = torch.zeros(1, dtype=torch.int32, device=device)
    return _FLAGS[device]
