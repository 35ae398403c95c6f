"""Kernels that a call of a known layout launches directly.

Triton's own launch looks at every argument to find what was compiled for it, some 10 us a launch on the
host. A call whose layout was seen before needs no look: the kernel is the one of the first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Kernel:
    """One kernel of a call, for tensors of one layout (types, strides, alignment, device).

    Args:
        function: the ``triton.jit`` function; its compile-time parameters come last.
        constants: all compile-time arguments, in the order of the function's parameters.
        options: ``num_warps`` and the like.

    Attributes:
        values: the compile-time arguments, which follow the others in a launch of what was compiled.
    """

    def __init__(self, function: Any, constants: Mapping[str, Any], **options: Any) -> None:
        names = function.arg_names[-len(constants) :]
        assert list(constants) == names, (list(constants), names)  # noqa: S101 - the order is relied on below
        self._function = function
        self._constants = dict(constants)
        self._options = options
        self.values = tuple(constants.values())
        self._compiled: Any = None

    @property
    def compiled(self) -> bool:
        """Whether there is something to launch directly; never so where kernels are interpreted."""
        return self._compiled is not None

    def __call__(self, grid: tuple[int, int, int], *arguments: Any) -> None:
        """Launch on the current stream; the first call compiles."""
        if self._compiled is None:
            # Interpreted, there is nothing to keep and this stays None.
            self._compiled = self._function[grid](*arguments, **self._constants, **self._options)
        else:
            self._compiled[grid](*arguments, *self.values)

    def entry(self) -> tuple[Any, Any, Any]:
        """Triton's launcher of what was compiled, the loaded function and its packed metadata.

        ``launcher(x, y, z, stream, function, metadata, launch_metadata, enter_hook, exit_hook, *arguments)``
        launches; a pointer may be an address.
        """
        compiled = self._compiled
        return compiled.run, compiled.function, compiled.packed_metadata


Kernels = dict[str, Kernel]
