"""A tiny model, decoded on a CUDA device where there is one, else under Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

# Triton reads this when it is imported; nothing of dispatch has imported it yet.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


@pytest.fixture
def tiny() -> Any:
    """A Mixtral of two layers in bfloat16, of this test alone."""
    from producers.models import load_model

    return load_model("tiny-mixtral", device=DEVICE).model


@pytest.fixture
def prompt() -> torch.Tensor:
    return torch.tensor([[5, 17, 90, 3, 61]], device=DEVICE)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    """Every row of a table, in the order of writing."""
    files = sorted((lake / table).glob("*.parquet"))
    return [row for file in files for row in pa.Table.to_pylist(pq.read_table(file, partitioning=None))]
