"""The device as torch sees it, for workers and the referee: which one, its identity, versions."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import socket
from typing import Any

import torch

from producers import nvml

# As in producers.environment, which the coordinator uses: rows of both carry the same names.
CPU_DEVICE = "cpu-interpreter"


def pick() -> torch.device:
    """The first visible CUDA device, else the CPU with Triton's interpreter switched on.

    ``TRITON_INTERPRET=1`` in the environment means the CPU even where there is a card.
    """
    if os.environ.get("TRITON_INTERPRET") != "1" and torch.cuda.is_available():
        torch.cuda.set_device(0)
        return torch.device("cuda", 0)
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton
    return torch.device("cpu")


def interpreted() -> bool:
    """Whether Triton kernels run under its interpreter in this process."""
    return os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available()


def synchronise(device: torch.device) -> None:
    """Wait for all work on ``device``; raises what the work raised."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def facts(device: torch.device) -> dict[str, Any]:
    """What ``hello`` answers about the process and its device; unknown values are None."""
    found: dict[str, Any] = {
        "python_version": platform.python_version(),
        "torch_version": torch.__version__,
        "triton_version": version_of("triton"),
        "cuda_version": torch.version.cuda,
        "pid": os.getpid(),
    }
    if device.type != "cuda":
        host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]
        return {**found, "device": CPU_DEVICE, "device_uuid": f"cpu-{host}", "driver_version": None}
    properties = torch.cuda.get_device_properties(device)
    uuid = str(properties.uuid).removeprefix("GPU-")
    return {
        **found,
        "device": properties.name,
        "device_uuid": f"GPU-{uuid}",
        "driver_version": _driver_version(f"GPU-{uuid}"),
    }


def version_of(distribution: str) -> str | None:
    """Version of an installed distribution, or of an importable module on a bare path; None if neither."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        return getattr(importlib.import_module(distribution), "__version__", None)
    except ImportError:
        return None


def _driver_version(uuid: str) -> str | None:
    index = 0
    while (card := nvml.open_card(index)) is not None:
        if card.uuid == uuid:
            return card.driver_version
        index += 1
    return None
