"""Timed executions of a launch, and what each kind of time includes.

graph (CUDA)
    The launch is captured once; a sample is one replay. Flush, start event, replay and end event of all
    samples of a call are queued without a synchronisation in between, one follows at the end. The time is
    what the device spends from the end of the flush to the end of the last kernel: no host cost.

eager (CUDA)
    Each sample starts from an idle device: flush queued, start event, the launch called as a user calls
    it, end event, synchronise. The start event is recorded behind the flush, so the device is busy while
    the host begins to launch: host cost up to the flush's own duration (0.25 ms on an H200) is hidden, as it
    is behind a predecessor in a model, and host cost beyond it, when the queue has drained, is in the time.
    After a flush of a quarter of that a short call on a virtual machine is host noise and nothing else: two
    entries of one implementation differed by up to two times there, and by under 2 % after this one.

eager (CPU, Triton's interpreter)
    Wall clock around one call.

On CUDA a call begins with executions that are not timed: the card has just worked for another process, and
so have the caches and clocks of the host. A replay needs two; an eager call, whose host cost is in the time,
some more, made exactly as the timed ones are. Python collects no garbage in between, as in ``timeit``.
The L2 cache is flushed before every CUDA sample by reading a buffer far larger than it, outside the timed
region: reading leaves clean lines behind, where a flush by writing leaves up to the whole cache dirty, and
the timed execution then pays for writing it back (5 to 8 us here on an H200). Memory is poisoned with NaN before the last sample of a call, outside the timed region too, so
that the output which is checked afterwards was written by a timed execution.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from producers.failures import Failure, failure_of
from producers.verify import fill_nan, poison

_LEAST_FLUSH_BYTES = 1 << 30
_WARM_UPS = 2
_EAGER_WARM_UPS = 6
_US_PER_MS = 1e3
_US_PER_S = 1e6
# CUgraphNodeType of cuda.h: what is executed on the device; the rest are empty, event and host nodes.
_LAUNCHING_NODES = {0, 1, 2}  # kernel, memcpy, memset

Launch = Callable[[], torch.Tensor]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class Flush:
    """Reads a buffer of at least four times the L2 cache and 1 GiB, so that no input stays in the cache."""

    def __init__(self, device: torch.device) -> None:
        self.state = "none"
        self._buffer: torch.Tensor | None = None
        if device.type == "cuda":
            l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
            size = max(4 * l2_bytes, _LEAST_FLUSH_BYTES)
            self._buffer = torch.zeros(size // 4, dtype=torch.int32, device=device)
            self._largest = torch.empty((), dtype=torch.int32, device=device)
            self.state = "flushed"

    def __call__(self) -> None:
        """Queue the read."""
        if self._buffer is not None:
            torch.amax(self._buffer, dim=0, out=self._largest)


@dataclass
class Timer:
    """One launch in one timing mode.

    Attributes:
        output: what the last timed execution returned (in graph mode the captured buffer); None before.
        launches: kernels, copies and fills on the device in one call; None unknown.
        sampled: whether the output is that of a timed execution.
    """

    launch: Launch
    device: torch.device
    flush: Flush
    poison_bytes: int
    output: torch.Tensor | None = None
    launches: int | None = None
    sampled: bool = False

    def check_run(self) -> torch.Tensor:
        """One untimed execution on poisoned memory; its output."""
        raise NotImplementedError

    def sample(self, samples: int) -> list[float]:
        """Times of ``samples`` executions, microseconds."""
        raise NotImplementedError


@dataclass
class Eager(Timer):
    """The launch called as a user calls it."""

    def check_run(self) -> torch.Tensor:
        """One call on poisoned memory."""
        self._poison()
        self.output = self.launch()
        return self.output

    def _poison(self) -> None:
        if self.output is not None:
            fill_nan(self.output)
            self.output = None
        poison(self.poison_bytes, self.device)

    def sample(self, samples: int) -> list[float]:
        """See the module."""
        cuda, self.sampled = self.device.type == "cuda", True
        times = []
        with _no_garbage_collection():
            for _ in range(_EAGER_WARM_UPS if cuda else 0):
                self._one_cuda()
            for left in range(samples, 0, -1):
                if left == 1:
                    self._poison()
                times.append(self._one_cuda() if cuda else self._one_cpu())
        return times

    def _one_cuda(self) -> float:
        start, end = (_event() for _ in range(2))
        torch.cuda.synchronize(self.device)
        self.flush()
        start.record()
        self.output = self.launch()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * _US_PER_MS

    def _one_cpu(self) -> float:
        start = time.perf_counter()
        self.output = self.launch()
        return (time.perf_counter() - start) * _US_PER_S


@dataclass
class Graph(Timer):
    """The launch captured in a CUDA graph.

    The launch's memory comes from a pool that a first, tiny graph fills with NaN: replaying that graph
    poisons workspaces and output alike, without a host synchronisation.
    """

    _graph: torch.cuda.CUDAGraph = field(init=False)
    _poisoner: torch.cuda.CUDAGraph = field(init=False)

    def __post_init__(self) -> None:
        """Capture.

        Raises:
            Failure: ``unsupported``, the launch cannot be captured.
        """
        current, stream = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.launch()  # warm on this stream: libraries keep workspaces per stream
        torch.cuda.synchronize(self.device)
        self._poisoner = torch.cuda.CUDAGraph()
        with _captured(self._poisoner, stream):
            poison(self.poison_bytes, self.device, fresh=False)
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            with _captured(self._graph, stream, self._poisoner.pool()):
                self.output = self.launch()
        except Exception as error:
            torch.cuda.set_stream(current)  # a capture that fails leaves its stream current
            failure = failure_of(error, lambda: torch.cuda.synchronize(self.device))
            if failure.reason_code != "crashed":
                raise failure from error
            detail = f"the launch cannot be captured in a CUDA graph: {failure.detail}"
            raise Failure("unsupported", detail) from error
        self.launches = count_launches(self._graph)
        self._graph.instantiate()

    def check_run(self) -> torch.Tensor:
        """One replay on poisoned memory; a copy of the captured output."""
        self._poisoner.replay()
        self._graph.replay()
        assert self.output is not None  # noqa: S101 - set by the capture
        return self.output.clone()

    def sample(self, samples: int) -> list[float]:
        """See the module."""
        self.sampled = True
        events = [[_event() for _ in range(2)] for _ in range(samples)]
        for _ in range(_WARM_UPS):
            self._graph.replay()
        torch.cuda.synchronize(self.device)
        for left, (start, end) in zip(range(samples, 0, -1), events, strict=True):
            if left == 1:
                self._poisoner.replay()
            self.flush()
            start.record()
            self._graph.replay()
            end.record()
        torch.cuda.synchronize(self.device)
        return [float(start.elapsed_time(end)) * _US_PER_MS for start, end in events]


@contextmanager
def _captured(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any = None) -> Iterator[None]:
    """Capture what runs inside.

    ``torch.cuda.graph`` also collects garbage and empties the allocator's cache each time, which a race with
    hundreds of captures has no time for.
    """
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield
        finally:
            graph.capture_end()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python's cycle collector from running inside a timed call."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def count_launches(graph: torch.cuda.CUDAGraph) -> int | None:
    """Kernels, copies and fills of a captured graph, asked from the driver; None where it does not say."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    if driver.cuGraphGetNodes(handle, None, ctypes.byref(count)) != 0:
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)) != 0:
        return None
    launches = 0
    for node in nodes:
        kind = ctypes.c_int()
        if driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) != 0:
            return None
        launches += kind.value in _LAUNCHING_NODES
    return launches
