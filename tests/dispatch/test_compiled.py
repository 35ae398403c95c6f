"""A kernel that is launched directly once it is compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dispatch.kernels.compiled import Kernel
from tests.dispatch.inputs import make

# Padding rows of a workspace hold anything, and numpy says so when it multiplies them.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero):RuntimeWarning")


class Function:
    """Stands for a ``triton.jit`` function: records its launches and returns what was compiled."""

    def __init__(self, compiled: Any) -> None:
        self.arg_names = ["x_ptr", "rows", "BLOCK", "STAGES"]
        self.compiled = compiled
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        def launch(*arguments: Any, **options: Any) -> Any:
            self.launches.append((grid, arguments, options))
            return self.compiled

        return launch


def test_the_first_launch_compiles_and_later_ones_go_to_what_was_compiled():
    """Compile-time values follow the arguments, in the order of the parameters, as a compiled launch takes them."""
    compiled = Function(None)
    function = Function(compiled)
    kernel = Kernel(function, {"BLOCK": 64, "STAGES": 3}, num_warps=8, launch_pdl=True)
    kernel((5, 1, 1), "x", 7)
    kernel((6, 1, 1), "y", 8)
    kernel((9, 2, 1), "z", 9)
    options = {"BLOCK": 64, "STAGES": 3, "num_warps": 8, "launch_pdl": True}
    assert function.launches == [((5, 1, 1), ("x", 7), options)]
    assert compiled.launches == [((6, 1, 1), ("y", 8, 64, 3), {}), ((9, 2, 1), ("z", 9, 64, 3), {})]


def test_what_is_interpreted_is_never_kept():
    function = Function(None)
    kernel = Kernel(function, {"BLOCK": 64, "STAGES": 3})
    kernel((1, 1, 1), "x", 7)
    kernel((1, 1, 1), "y", 8)
    assert [arguments for _, arguments, _ in function.launches] == [("x", 7), ("y", 8)]


@pytest.mark.parametrize("constants", [{"STAGES": 3, "BLOCK": 64}, {"BLOCK": 64}, {"BLOCK": 64, "STEPS": 3}])
def test_compile_time_values_in_another_order_or_incomplete_are_refused(constants):
    with pytest.raises(AssertionError):
        Kernel(Function(None), constants)


def test_kernels_are_kept_for_one_layout(device, monkeypatch):
    """A second call of a layout makes no new kernel; another stride of x has kernels of its own."""
    made = []
    init = Kernel.__init__

    def counted(self: Kernel, function: Any, constants: Any, **options: Any) -> None:
        made.append(function.__name__)
        init(self, function, constants, **options)

    monkeypatch.setattr(Kernel, "__init__", counted)
    inputs = make(1, 128, 128, 3, 2, device=device, ids=torch.tensor([[2, 0]], dtype=torch.int32), seed=77)
    # A stride that no other test has, so that nothing was kept before.
    x = torch.zeros(1, 1168, dtype=torch.bfloat16, device=device)[:, :128].copy_(inputs.x)
    inputs = inputs.with_(x=x)
    first = inputs.run("stream")
    assert sorted(made) == ["combine_kernel", "down_kernel", "gate_up_kernel", "plan_kernel"]
    assert torch.equal(first, inputs.run("stream"))
    assert len(made) == 4
    inputs.with_(x=torch.zeros(1, 1176, dtype=torch.bfloat16, device=device)[:, :128].copy_(x)).run("stream")
    assert len(made) == 8
