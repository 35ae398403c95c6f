"""Which family runs."""

from __future__ import annotations

import pytest

from dispatch import UnsupportedError, kernels
from dispatch.config import DeviceFacts, Problem
from dispatch.precision import Precision

A100 = DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108)


def problem(tokens: int) -> Problem:
    """Make a call of the default workload on a device that only the general families run on."""
    return Problem(tokens, 6, 64, 2048, 1408, Precision.BF16, A100)


def test_auto_takes_persistent_for_many_rows_and_naive_for_few():
    assert [kernels.choose(problem(m), "auto").name for m in (1, 64, 512, 2048)] == [
        "naive",
        "naive",
        "naive",
        "persistent",
    ]


def test_every_family_goes_by_its_name():
    assert all(kernels.load(name).name == name for name in kernels.FAMILIES)


def test_auto_passes_a_family_by_that_refuses_and_a_named_one_says_why(monkeypatch):
    preferred = kernels.load("persistent")
    monkeypatch.setattr(type(preferred), "refuses", lambda *_: "it is not its day.")
    assert kernels.choose(problem(2048), "auto").name == "naive"
    with pytest.raises(UnsupportedError, match="kernel 'persistent': it is not its day"):
        kernels.choose(problem(2048), "persistent")
