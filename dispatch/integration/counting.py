"""Which kernel ran in which layer of a model, as dispatch itself reports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from dispatch.integration.layers import experts_layers
from dispatch.moe import Plan, observe
from dispatch.precision import Precision


class Calls:
    """Calls of the kernels, layer by layer. A layer that ran none has an entry without counts.

    Attributes:
        outside: calls made while no layer of the model was running.
    """

    def __init__(self, layers: list[str]) -> None:
        self._counts: dict[str, Counter[tuple[str, Precision]]] = {name: Counter() for name in layers}
        self._running: list[str] = []
        self.outside = 0

    @property
    def by_layer(self) -> dict[str, dict[str, int]]:
        """Layer name -> kernel family (``naive``, ``persistent``, ``stream``, ...) -> calls."""
        found: dict[str, dict[str, int]] = {}
        for name, counts in self._counts.items():
            kernels: Counter[str] = Counter()
            for (kernel, _), calls in counts.items():
                kernels[kernel] += calls
            found[name] = dict(kernels)
        return found

    @property
    def kernels(self) -> frozenset[str]:
        """Every kernel family that ran."""
        return frozenset(kernel for counts in self._counts.values() for kernel, _ in counts)

    @property
    def precisions(self) -> frozenset[Precision]:
        """Every precision that ran."""
        return frozenset(precision for counts in self._counts.values() for _, precision in counts)

    def least(self, kernel: str | None = None, precision: Precision | str | None = None) -> int:
        """The calls of the layer that has fewest.

        Args:
            kernel: count this family only; None or ``auto``: whichever ran.
            precision: count this precision only.
        """
        named = None if kernel == "auto" else kernel
        return min(
            sum(
                calls
                for (ran, how), calls in counts.items()
                if named in {None, ran} and precision in {None, how}
            )
            for counts in self._counts.values()
        )

    def _enter(self, name: str) -> None:
        self._running.append(name)

    def _leave(self) -> None:
        self._running.pop()

    def _record(self, plan: Plan) -> None:
        if self._running:
            self._counts[self._running[-1]][plan.kernel, plan.problem.precision] += 1
        else:
            self.outside += 1


@contextmanager
def count_calls(model: nn.Module) -> Iterator[Calls]:
    """Count the kernels that run in each experts layer of ``model`` during the block.

    A call counts when :func:`dispatch.fused_moe` has enqueued its kernels: a layer that computes some other way
    has none, whatever implementation it was asked for. A call under CUDA-graph capture counts once; replays
    run no Python and are not seen.

    Raises:
        InvalidInputError: the model has no experts layers.
    """
    layers = experts_layers(model)
    calls = Calls(list(layers))
    with ExitStack() as stack:
        for name, layer in layers.items():
            enter, leave = _hooks(calls, name)
            stack.callback(layer.register_forward_pre_hook(enter).remove)
            # Called after a forward that raised, too: a stale name would get the next layer's calls.
            stack.callback(layer.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(observe(calls._record))
        yield calls


def _hooks(calls: Calls, name: str) -> tuple[Any, Any]:
    def enter(*_: object) -> None:
        calls._enter(name)

    def leave(*_: object) -> None:
        calls._leave()

    return enter, leave
