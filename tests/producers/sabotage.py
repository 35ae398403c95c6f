"""Contestants that misbehave, each in one way; loaded by a real worker as ``sabotage:Name``."""

from __future__ import annotations

import ctypes
import sys
import time

import torch

from producers.contestants.base import Contestant, Inputs, Launch
from producers.referee import reference
from producers.workloads import Cell


class Right(Contestant):
    """Computes the layer with plain torch; the others spoil it."""

    name = "right"
    house = "test"

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:  # noqa: ARG002
        """The reference, rounded to x's type."""
        self.calls = 0

        def launch() -> torch.Tensor:
            self.calls += 1
            return self.spoil(reference(inputs.named(), inputs.named()).to(inputs.x.dtype), inputs)

        return launch

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        """What the contestant returns."""
        return output


class Wrong(Right):
    """Two per cent too large."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        return output * 1.02


class OneWrongToken(Right):
    """The last token is that of its neighbour."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        output[-1] = output[0]
        return output


class Nan(Right):
    """One NaN."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        output[0, 0] = float("nan")
        return output


class Drifting(Right):
    """Within tolerance of the reference, but each call further from the first."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        return output * (1 + 0.004 * (self.calls - 1))


class Jitter(Right):
    """Differs in the last bits from call to call, like atomics."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        output[0, 0] *= 1 + 2**-7 * (self.calls % 2)
        return output


class LateWrong(Right):
    """Right in the three calls that are verified, wrong in the timed ones."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        return output if self.calls <= 3 else output * 2


class Overwrites(Right):
    """Uses x as its output, as an engine does by default."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        return inputs.x.copy_(output)


class Repacks(Right):
    """Swaps two experts' weights and puts the output right: same values, other places."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        inputs.w2.copy_(inputs.w2.flip(0))
        return output


class Stale(Right):
    """Writes its output once and hands out the same buffer ever after."""

    buffer: torch.Tensor | None = None

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        if self.buffer is None:
            self.buffer = output
        return self.buffer


class Raises(Right):
    """Raises in its second call."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        if self.calls > 1:
            raise ValueError("block size 48 is not a power of two")
        return output


class Exits(Right):
    """Calls sys.exit, as command-line code in a library does."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        sys.exit("usage: no")


class OutOfMemory(Right):
    """Asks for more than there is."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB")


class Faults(Right):
    """Says what a CUDA launch says after an illegal access."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        raise RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")


class Unable(Right):
    """Does not take the cell."""

    def supports(self, cell: Cell) -> str | None:
        return f"top_k {cell.top_k} is not a power of three"


class WrongShape(Right):
    """Returns [H, M]."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        return output.T


class Prints(Right):
    """Prints garbage on standard output, from Python and from C, and reads standard input."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        print('{"id": 1, "ok": true}', flush=True)
        ctypes.CDLL(None).puts(b"garbage from C")
        ctypes.CDLL(None).fflush(None)
        assert sys.stdin.read() == ""
        return output


class Sleeps(Right):
    """Does not come back."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        time.sleep(600)
        return output


class Dies(Right):
    """Segmentation fault."""

    def spoil(self, output: torch.Tensor, inputs: Inputs) -> torch.Tensor:  # noqa: ARG002
        ctypes.string_at(0)
        return output


class NotInstalled(Right):
    """Needs a package that is not there."""

    def __init__(self) -> None:
        import no_such_engine  # type: ignore[import-not-found]  # noqa: F401
