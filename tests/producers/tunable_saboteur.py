"""A tunable contestant whose configurations do what no configuration should."""

# ruff: noqa: ARG002 - it looks at nothing that it is told

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch

from producers.contestants.base import Inputs, Launch
from producers.contestants.torch_eager import expert_loop
from producers.contestants.tunable import Chip, Chosen, Config, Tunable
from producers.workloads import Cell


class Saboteur(Tunable):
    """``factor`` scales the output; ``right_calls`` is after how many calls it goes wrong; ``writes`` into x."""

    name: ClassVar[str] = "saboteur"
    house: ClassVar[str] = "saboteur"

    def default(self, cell: Cell) -> Config:
        """Nothing wrong."""
        return {"factor": 1}

    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:
        """One wrong output, one input written into."""
        return [{"factor": 2}, {"writes": 1}]

    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """None."""
        return []

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """As by default."""
        return self.prepare_with(cell, inputs, self.default(cell))

    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """See the class."""
        calls = 0

        def launch() -> torch.Tensor:
            nonlocal calls
            calls += 1
            out = expert_loop(inputs)
            if config.get("writes"):
                inputs.x[0, 0] += 1
            factor = 2 if calls > config.get("right_calls", calls) else config.get("factor", 1)
            return out * factor

        return launch

    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """None."""
        return []
