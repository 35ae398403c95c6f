"""What the tests of the lake share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lakes import Race, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with one finished race of 240 samples."""
    return write(tmp_path / "lake", Race())


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts a Python program in an empty folder, with this checkout importable."""

    def start(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}",
                *map(str, arguments),
            ],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start
