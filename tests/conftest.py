"""What tests of several packages share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """The folder of real files and small inputs beside the checkout; the test is skipped where it is absent."""
    folder = Path(__file__).parents[2] / "shared" / "cases"
    if not folder.is_dir():
        pytest.skip("the folder of shared cases is not beside this checkout")
    return folder
