"""The driver's own view of one card (NVML and the CUDA driver through ctypes): facts, load, clocks.

No torch and no package: the coordinator must start where neither is installed. A value that the
driver does not give is None.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any

_SUCCESS = 0
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_TEMPERATURE_GPU = 0
_CU_MULTIPROCESSOR_COUNT, _CU_L2_CACHE_SIZE = 16, 38

# nvmlClocksThrottleReasons of nvml.h; 'idle' is left out: an idle moment between rounds slows nothing.
_THROTTLE_REASONS = {
    0x0002: "applications-clocks",
    0x0004: "sw-power-cap",
    0x0008: "hw-slowdown",
    0x0010: "sync-boost",
    0x0020: "sw-thermal",
    0x0040: "hw-thermal",
    0x0080: "hw-power-brake",
    0x0100: "display-clocks",
}


class _Utilisation(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _ProcessInfo(Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used_bytes", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


@dataclass(frozen=True)
class CardState:
    """The card at one moment: MHz, degrees Celsius, watts, comma-separated throttle reasons."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: str | None = None


class Card:
    """One card by its index in NVML's (PCI) order."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._nvml = library
        self._handle = handle

    def _read(self, function: str, value: Any, *arguments: Any) -> Any:
        """``value`` filled in by an NVML getter of this card, None where it is not supported."""
        getter = getattr(self._nvml, function, None)
        if getter is None or getter(self._handle, *arguments, byref(value)) != _SUCCESS:
            return None
        return value

    def _number(self, function: str, kind: type[Any] = c_uint, *arguments: Any) -> float | None:
        value = self._read(function, kind(), *arguments)
        return None if value is None else float(value.value)

    def _text(self, function: str) -> str | None:
        buffer = ctypes.create_string_buffer(96)
        done = getattr(self._nvml, function)(self._handle, buffer, c_uint(len(buffer))) == _SUCCESS
        return buffer.value.decode() if done else None

    @property
    def name(self) -> str:
        """Model, e.g. ``NVIDIA H200``."""
        return self._text("nvmlDeviceGetName") or "unknown NVIDIA device"

    @property
    def uuid(self) -> str:
        """``GPU-...``; also what CUDA_VISIBLE_DEVICES takes."""
        return self._text("nvmlDeviceGetUUID") or "unknown"

    @property
    def driver_version(self) -> str | None:
        """Version of the kernel driver."""
        buffer = ctypes.create_string_buffer(96)
        done = self._nvml.nvmlSystemGetDriverVersion(buffer, c_uint(len(buffer))) == _SUCCESS
        return buffer.value.decode() if done else None

    @property
    def power_limit_w(self) -> float | None:
        """Enforced power limit, watts."""
        milliwatts = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1000

    @property
    def memory_bytes(self) -> int | None:
        """Device memory."""
        memory = self._read("nvmlDeviceGetMemoryInfo", _Memory())
        return None if memory is None else int(memory.total)

    def memory_used_bytes(self) -> int | None:
        """Device memory in use now, by everybody."""
        memory = self._read("nvmlDeviceGetMemoryInfo", _Memory())
        return None if memory is None else int(memory.used)

    def utilisation(self) -> float | None:
        """Share of the last sampling period in which a kernel ran, percent."""
        value = self._read("nvmlDeviceGetUtilizationRates", _Utilisation())
        return None if value is None else float(value.gpu)

    def compute_pids(self) -> list[int]:
        """Processes that hold a compute context on the card (as far as this container may see them)."""
        getter = getattr(self._nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        infos = (_ProcessInfo * 64)()
        count = c_uint(len(infos))
        if getter is None or getter(self._handle, byref(count), infos) != _SUCCESS:
            return []
        return [int(info.pid) for info in infos[: count.value]]

    def state(self) -> CardState:
        """Clocks, temperature, power and throttle reasons now."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        mask = self._read("nvmlDeviceGetCurrentClocksThrottleReasons", c_ulonglong())
        reasons = None
        if mask is not None:
            reasons = ",".join(name for bit, name in _THROTTLE_REASONS.items() if mask.value & bit)
        return CardState(
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", c_uint, c_int(_SM_CLOCK)),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", c_uint, c_int(_MEMORY_CLOCK)),
            temperature_c=self._number("nvmlDeviceGetTemperature", c_uint, c_int(_TEMPERATURE_GPU)),
            power_w=None if milliwatts is None else milliwatts / 1000,
            throttle_reasons=reasons,
        )


def open_card(index: int) -> Card | None:
    """The card at ``index``, None where there is no driver or no such card."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    library.nvmlDeviceGetHandleByIndex_v2.argtypes = [c_uint, POINTER(c_void_p)]
    handle = c_void_p()
    if library.nvmlInit_v2() != _SUCCESS:
        return None
    if library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) != _SUCCESS:
        return None
    return Card(library, handle)


def driver_attributes(index: int) -> tuple[int | None, int | None]:
    """Streaming multiprocessors and L2 bytes of a card, from the CUDA driver (no context is made).

    The CUDA driver numbers cards by speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID; on a host with one
    model the two orders give the same attributes.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    device = c_int()
    if cuda.cuInit(0) != _SUCCESS or cuda.cuDeviceGet(byref(device), c_int(index)) != _SUCCESS:
        return None, None
    found: list[int | None] = []
    for attribute in (_CU_MULTIPROCESSOR_COUNT, _CU_L2_CACHE_SIZE):
        value = c_int()
        done = cuda.cuDeviceGetAttribute(byref(value), c_int(attribute), device) == _SUCCESS
        found.append(value.value if done else None)
    return found[0], found[1]
