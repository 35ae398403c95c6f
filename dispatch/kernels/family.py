"""What a kernel family is, and the tensors that it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from dispatch.config import MoeConfig, Problem
from dispatch.kernels.call import Call


@dataclass(frozen=True)
class MoeTensors:
    """Checked inputs of a call: shapes agree, last axes are dense, scales are contiguous float32.

    Attributes:
        x: [M, H] bfloat16 or float16, rows any stride apart.
        w13: [E, 2 I, H], gate rows first; experts and rows any stride apart.
        w2: [E, H, I]; experts and rows any stride apart.
        topk_weights: [M, k] float32 contiguous.
        topk_ids: [M, k] int32 or int64 contiguous; may hold ids outside 0 .. E-1.
        w13_scale: [E, 2 I] or [E, 2 I, 1], or None.
        w2_scale: [E, H] or [E, H, 1], or None.
        out_of_range: [1] int32, to be set to 1 where an id is E or larger.
        out: [M, H] of the type of x, rows any stride apart; may be x itself.
    """

    x: torch.Tensor
    w13: torch.Tensor
    w2: torch.Tensor
    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    w13_scale: torch.Tensor | None
    w2_scale: torch.Tensor | None
    out_of_range: torch.Tensor
    out: torch.Tensor


class Family(Protocol):
    """One way to compute the operation.

    Attributes:
        name: what ``kernel=`` calls it.
    """

    name: str

    def refuses(self, problem: Problem) -> str | None:
        """Why this problem cannot be run, in a sentence; None if it can."""

    def preference(self, problem: Problem) -> float:
        """How well it suits the problem, for ``auto``: the family with the largest value is taken."""

    def configure(self, problem: Problem) -> MoeConfig:
        """Tiles for the problem."""

    def launches(self, problem: Problem) -> int:
        """Kernel launches of a call."""

    def run(self, tensors: MoeTensors, problem: Problem, config: MoeConfig, call: Call) -> None:
        """Enqueue the call on the current stream; its last kernel writes ``tensors.out``.

        Workspaces and launches of compiled kernels go through ``call``, so that later calls of tensors of
        one layout can be replayed without the family; what is launched past it makes a call unrepeatable,
        unless nothing is launched through it.

        No host synchronisation, no search, and a launch shape that depends on the problem alone. Floating
        point is summed in a fixed order.
        """
