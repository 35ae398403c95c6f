"""The kernels run on a CUDA device where there is one, else under Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

# Triton reads this when it is imported; nothing of dispatch has imported it yet.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where tensors of a test live."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


@pytest.fixture(autouse=True)
def flag_is_clear(device: torch.device) -> None:
    """Every test begins with a clear flag of ids out of range."""
    from dispatch import out_of_range_flag

    out_of_range_flag(device).zero_()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a CUDA device where there is none."""
    if item.get_closest_marker("gpu") is not None and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
