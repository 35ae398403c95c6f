"""A call as a list of launches: made while the first call of a layout runs, replayed by the later ones.

What a family does on the host (sizes, workspaces, grids, arguments) depends on the layout of the inputs
alone. So the first call writes down its launches, and a later call of the same layout asks for one
workspace, takes the addresses of its tensors and launches: no decision, no checks, and no look at an
argument by Triton, whose launch costs some 10 us of the host's time each. An eager call of a few tokens is
as long as what the host needs for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dispatch.kernels.compiled import Kernel, Kernels

# Of every workspace; Triton compiled the kernels for addresses that are multiples of 16, wgmma likes 128.
_ALIGNMENT = 256


@dataclass(frozen=True)
class _Launch:
    """One launch of a replay: arguments, and where addresses go among them, as (place, base, offset)."""

    kernel: Kernel
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    addresses: tuple[tuple[int, int, int], ...]


class Call:
    """What a family runs a call through.

    Args:
        kernels: of the calls of this layout; empty at the first.
        device: where workspaces go.
    """

    def __init__(self, kernels: Kernels, device: torch.device) -> None:
        self._kernels = kernels
        self._device = device
        self._workspaces: list[tuple[torch.Tensor, int]] = []
        self._bytes = 0
        self._launches: list[tuple[Kernel, tuple[int, int, int], tuple[Any, ...]]] = []

    def kernel(self, name: str, make: Callable[[], Kernel]) -> None:
        """Make a kernel if the layout has none of that name yet."""
        if name not in self._kernels:
            self._kernels[name] = make()

    def kernels(self, make: Callable[[], Kernels]) -> None:
        """Make the kernels of a family if the layout has none yet."""
        if not self._kernels:
            self._kernels.update(make())

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A workspace of this call, uninitialised."""
        tensor = torch.empty(tuple(shape), dtype=dtype, device=self._device)
        self._workspaces.append((tensor, self._bytes))
        size = math.prod(shape) * dtype.itemsize
        self._bytes += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return tensor

    def launch(self, name: str, grid: tuple[int, int, int], *arguments: Any) -> None:
        """Launch a kernel on the current stream; the first time compiles it."""
        kernel = self._kernels[name]
        kernel(grid, *arguments)
        self._launches.append((kernel, grid, arguments))

    def replay(self, operands: Sequence[torch.Tensor | None]) -> Replay | None:
        """The launches of this call for other tensors of the same layout.

        Args:
            operands: the tensors that a replay gets anew, in this order; each stands for itself among the
                arguments of the launches.

        Returns:
            None where there is nothing to replay: the kernels are interpreted; or an argument is neither an
            operand nor a workspace (a copy of an operand that was not dense); or two operands are one tensor
            (``out`` may be ``x``), so that it cannot be told which of them an argument is. A later call with
            tensors of their own is noted down, and its launches then hold for both.
        """
        given = [id(operand) for operand in operands if operand is not None]
        if len(set(given)) < len(given):
            return None
        if not self._launches or not all(kernel.compiled for kernel, _, _ in self._launches):
            return None
        # Base 0 is the workspace, base i + 1 operand i.
        places = {id(tensor): (0, offset) for tensor, offset in self._workspaces}
        places |= {id(operand): (i + 1, 0) for i, operand in enumerate(operands) if operand is not None}
        launches = []
        for kernel, grid, arguments in self._launches:
            addresses = []
            for place, argument in enumerate(arguments):
                if isinstance(argument, torch.Tensor):
                    if id(argument) not in places:
                        return None
                    addresses.append((place, *places[id(argument)]))
            plain = tuple(None if isinstance(a, torch.Tensor) else a for a in arguments)
            launches.append(_Launch(kernel, grid, plain, tuple(addresses)))
        return Replay(tuple(launches), self._bytes, self._device)


class Replay:
    """The launches of a call, for tensors of one layout.

    Args:
        launches: in order.
        workspace_bytes: what they need together.
        device: a CUDA device, which must be the current one when replaying.
    """

    def __init__(self, launches: tuple[_Launch, ...], workspace_bytes: int, device: torch.device) -> None:
        # Here, since `dispatch` can be imported without Triton.
        from triton import knobs  # noqa: PLC0415
        from triton.runtime import driver  # noqa: PLC0415

        self._bytes = workspace_bytes
        self._device = device
        self._index = driver.active.get_current_device()
        self._stream = driver.active.get_current_stream
        self._runtime = knobs.runtime
        self._launches = [
            (
                *launch.kernel.entry(),
                launch.grid,
                [*launch.arguments, *launch.kernel.values],
                launch.addresses,
            )
            for launch in launches
        ]

    @property
    def profiled(self) -> bool:
        """Whether somebody hooked into Triton's launches (a profiler): a replay would pass them by."""
        hooks = (self._runtime.launch_enter_hook, self._runtime.launch_exit_hook)
        return any(hook is not None and getattr(hook, "calls", True) for hook in hooks)

    def __call__(self, operands: Sequence[torch.Tensor | None]) -> None:
        """Enqueue on the current stream of the device."""
        workspace = torch.empty(self._bytes, dtype=torch.uint8, device=self._device)
        bases = [workspace.data_ptr(), *[0 if o is None else o.data_ptr() for o in operands]]
        stream = self._stream(self._index)
        for run, function, metadata, (x, y, z), template, addresses in self._launches:
            arguments = template.copy()
            for place, base, offset in addresses:
                arguments[place] = bases[base] + offset
            run(x, y, z, stream, function, metadata, None, None, None, *arguments)
