"""A call that is replayed as a list of launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dispatch.kernels.call import Call, Replay
from dispatch.kernels.compiled import Kernel, Kernels

ONE = (1, 1, 1)


class Compiled:
    """Stands for what Triton compiled: notes what its launcher is given."""

    function, packed_metadata = "function", "metadata"

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *_: None

    def run(self, *arguments: Any) -> None:
        self.launches.append(arguments)


class Function:
    """Stands for a ``triton.jit`` function."""

    arg_names = ["a_ptr", "b_ptr", "rows", "BLOCK"]  # noqa: RUF012 - as Triton has it

    def __init__(self, compiled: Compiled | None) -> None:
        self.compiled = compiled

    def __getitem__(self, grid: Any) -> Any:
        return lambda *_, **__: self.compiled


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay asks Triton's driver for the device and its stream; here it is on the CPU."""
    from triton.runtime import driver

    active = SimpleNamespace(get_current_device=lambda: 3, get_current_stream=lambda device: 1000 + device)
    monkeypatch.setattr(driver, "_active", active, raising=False)


def recorded(compiled: Compiled | None, x: torch.Tensor, weights: Any, out: torch.Tensor) -> Replay | None:
    """Two launches through two workspaces; x, weights and out are operands."""
    kernels: Kernels = {}
    call = Call(kernels, torch.device("cpu"))
    call.kernels(lambda: {"first": Kernel(Function(compiled), {"BLOCK": 64})})
    call.kernel("second", lambda: Kernel(Function(compiled), {"BLOCK": 32}))
    left = call.empty((3, 5), torch.int8)  # 15 bytes: the next workspace begins at 256
    right = call.empty((7,), torch.float32)
    call.launch("first", (4, 1, 1), x, left, 11)
    call.launch("second", (2, 3, 1), right, out, weights)
    return call.replay((x, weights, out))


def test_a_replay_launches_the_same_kernels_with_the_addresses_of_its_own_tensors():
    compiled = Compiled()
    first = [torch.empty(8) for _ in range(3)]
    replay = recorded(compiled, *first)
    assert replay is not None
    x, weights, out = (torch.empty(8) for _ in range(3))
    replay((x, weights, out))
    one, two = compiled.launches
    common = (1003, "function", "metadata", None, None, None)
    workspace = one[10]
    assert one == (4, 1, 1, *common, x.data_ptr(), workspace, 11, 64)
    assert two == (2, 3, 1, *common, workspace + 256, out.data_ptr(), weights.data_ptr(), 32)
    assert workspace % 16 == 0


def test_an_operand_that_is_absent_stays_absent():
    compiled = Compiled()
    replay = recorded(compiled, torch.empty(8), None, torch.empty(8))
    assert replay is not None
    replay((torch.empty(8), None, torch.empty(8)))
    assert compiled.launches[1][-2:] == (None, 32)


def test_what_is_interpreted_is_not_replayed():
    assert recorded(None, torch.empty(8), torch.empty(8), torch.empty(8)) is None


def test_a_call_with_a_tensor_of_unknown_origin_is_not_replayed():
    """A copy that the first call made holds that call's values."""
    call = Call({}, torch.device("cpu"))
    call.kernel("first", lambda: Kernel(Function(Compiled()), {"BLOCK": 64}))
    x = torch.empty(4, 4).t()
    call.launch("first", ONE, x.contiguous(), call.empty((4,), torch.float32), 1)
    assert call.replay((x,)) is None


def test_a_call_in_place_is_not_replayed_but_a_replay_works_in_place():
    """Noted down with out being x, x of a later call would be read where that call's result goes."""
    compiled = Compiled()
    x, weights = torch.empty(8), torch.empty(8)
    assert recorded(compiled, x, weights, x) is None
    replay = recorded(compiled, x, weights, torch.empty(8))
    assert replay is not None
    replay((x, weights, x))
    one, two = compiled.launches
    assert one[9] == two[10] == x.data_ptr()


def test_a_call_past_the_list_is_not_replayed():
    """A family that launches on its own leaves no list, and an empty one must not pass for a call."""
    assert Call({}, torch.device("cpu")).replay((torch.empty(4),)) is None


def test_a_profiler_is_noticed(monkeypatch: pytest.MonkeyPatch):
    from triton import knobs

    replay = recorded(Compiled(), torch.empty(8), torch.empty(8), torch.empty(8))
    assert replay is not None
    assert not replay.profiled
    hook = lambda _: None  # noqa: E731
    knobs.runtime.launch_exit_hook.add(hook)
    try:
        assert replay.profiled
    finally:
        knobs.runtime.launch_exit_hook.remove(hook)
    assert not replay.profiled
