"""The implementations are registered before any test of them."""

from __future__ import annotations

import pytest

from dispatch.integration import register


@pytest.fixture(scope="session", autouse=True)
def names() -> tuple[str, ...]:
    """Return the names of the implementations."""
    return register()
