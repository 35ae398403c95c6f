"""A world of what lies beside the race: a gate, decode inside a model, served engines; and what is true of it."""

from __future__ import annotations

from pathlib import Path

from tests.evidence import write_decode, write_gate, write_price, write_serving
from tests.lakes import Race, write
from warehouse.build import build

DISAGREEMENTS = {
    "naive_bf16": 4,
    "persistent_bf16": 1,
    "auto_bf16": 5,
    "auto_int8_w8a16": 12,
    "auto_int8_w8a8": 20,
}
DECODE = {"stock_eager_bf16": 250.0, "dispatch_bf16": 400.0, "dispatch_graph_bf16": 800.0}
SERVED = {"vllm": 90.0, "sglang": 110.0}
LOADS = (1, 4)


def make(folder: Path) -> None:
    """Write the lake into ``folder`` and build it."""
    lake = write(folder / "lake", Race())
    write_gate(lake, disagreements=DISAGREEMENTS)
    write_decode(lake, DECODE)
    write_serving(lake, SERVED, loads=LOADS)
    write_price(lake, 3.6)
    build([lake], folder / "warehouse.db")
