"""Named MoE shapes, cells, and how many bytes and operations a cell takes.

Pure Python: the coordinator, the referee and the workers share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

# Bytes of one number as stored. Activations are 16 bits wide in every precision: bf16, or fp16 for fp16.
_WEIGHT_ITEM_BYTES = {"bf16": 2, "fp16": 2, "int8_w8a16": 1, "int8_w8a8": 1}
_ACTIVATION_ITEM_BYTES = 2
_SCALE_ITEM_BYTES = 4
_ROUTING_ITEM_BYTES = 4 + 4  # an int32 id and a float32 router weight

PRECISIONS = tuple(_WEIGHT_ITEM_BYTES)


@dataclass(frozen=True)
class Workload:
    """An MoE layer's shape.

    Attributes:
        name: how commands and cell ids call it.
        experts: E.
        top_k: experts of a token.
        hidden: H; x and the output are [M, H].
        intermediate: I; w13 is [E, 2 I, H] (gate rows first), w2 is [E, H, I].
    """

    name: str
    experts: int
    top_k: int
    hidden: int
    intermediate: int


_ALL = (
    Workload("deepseek-moe-16b", 64, 6, 2048, 1408),
    Workload("mixtral-8x7b", 8, 2, 4096, 14336),
    Workload("qwen3-30b-a3b", 128, 8, 2048, 768),
    Workload("olmoe", 64, 8, 2048, 1024),
    Workload("deepseek-v3-shard", 256, 8, 7168, 256),  # one of 8 ranks, split over the intermediate size
    Workload("interpreter-small", 8, 2, 64, 32),  # tens of milliseconds a call under Triton's interpreter
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}


@dataclass(frozen=True)
class Cell:
    """A cell as the wire carries it: workload x precision x routing x tokens, with the shape spelled out."""

    cell_id: str
    workload: str
    experts: int
    top_k: int
    hidden: int
    intermediate: int
    precision: str
    routing: str
    zipf_s: float | None
    tokens: int

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Cell:
        """The cell of a request; keys that a cell does not have are ignored.

        Raises:
            ValueError: a field is missing, or the precision is unknown.
        """
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in message]
        if missing:
            raise ValueError(f"the cell lacks {', '.join(missing)}")
        cell = cls(**{name: message[name] for name in names})
        if cell.precision not in PRECISIONS:
            raise ValueError(f"no precision '{cell.precision}'; known are {', '.join(PRECISIONS)}")
        return cell


def weight_family(precision: str) -> str:
    """Which stored weights a precision reads: ``bf16``, ``fp16`` or ``int8`` (both int8 precisions)."""
    return "int8" if precision.startswith("int8") else precision


def activation_dtype(precision: str) -> str:
    """Type of x and of the output, as torch spells it."""
    return "float16" if precision == "fp16" else "bfloat16"


def weight_bytes(cell: Cell, distinct_experts: int) -> int:
    """Bytes of the weights (and int8 scales) of the experts that the drawn ids touch, each read once."""
    matrices = 3 * cell.hidden * cell.intermediate * _WEIGHT_ITEM_BYTES[cell.precision]
    scales = 0
    if weight_family(cell.precision) == "int8":
        scales = (2 * cell.intermediate + cell.hidden) * _SCALE_ITEM_BYTES
    return distinct_experts * (matrices + scales)


def io_bytes(cell: Cell) -> int:
    """Bytes of x, ids and router weights read once, and of the output written once."""
    activations = 2 * cell.tokens * cell.hidden * _ACTIVATION_ITEM_BYTES
    return activations + cell.tokens * cell.top_k * _ROUTING_ITEM_BYTES


def flops(cell: Cell, slots: int) -> int:
    """Operations of ``slots`` valid (token, expert) pairs: three H x I products, two for each element."""
    return slots * 2 * 3 * cell.hidden * cell.intermediate
