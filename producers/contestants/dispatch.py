"""Our own library, one contestant for each of its kernels."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from producers.contestants.base import Inputs, Launch, config_text
from producers.contestants.tunable import Chip, Chosen, Config, Tunable, read_json, write_json
from producers.workloads import Cell

_SIZES = ("tokens", "top_k", "experts", "hidden", "intermediate")


class Dispatch(Tunable):
    """``dispatch.fused_moe`` with a kernel: ``auto``, ``naive`` or ``persistent``."""

    name = "dispatch"
    house = "dispatch"
    package = "dispatch"

    def __init__(self, kernel: str = "auto") -> None:
        self._dispatch = importlib.import_module("dispatch")
        self._kernel = kernel
        self._asked: dict[str, Any] = {}

    def facts(self) -> dict[str, Any]:
        """Kernel and tiles that the library chose for the cell, and where they came from."""
        plan = self._dispatch.explain(**self._asked)
        return {
            "config_source": plan.config.source,
            "config_json": config_text(_as_config(plan)),
            "tuned_triton_version": plan.config.tuned_triton_version,
            "launches": plan.launches,
        }

    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """A plain call, nothing preallocated, as a user makes it."""
        options = {"kernel": self._kernel, "precision": cell.precision}
        self._asked = {**{name: getattr(cell, name) for name in _SIZES}, **options, "device": inputs.x.device}
        scales = {"w13_scale": inputs.w13_scale, "w2_scale": inputs.w2_scale}
        fused_moe = self._dispatch.fused_moe

        def launch() -> torch.Tensor:
            out: torch.Tensor = fused_moe(
                inputs.x, inputs.w13, inputs.w2, inputs.topk_weights, inputs.topk_ids, **options, **scales
            )
            return out

        return launch

    def default(self, cell: Cell) -> Config:
        """The kernel that is chosen for the cell, with the tiles that it would run with."""
        return _as_config(self._plan(cell))

    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:
        """Tiles of the chosen kernel around those that it would take; other kernels with their own tiles."""
        families, plan = _families(), self._plan(cell)
        own: list[Config] = families.beside(plan.kernel, plan.config, plan.problem, chip.shared_bytes)
        others = families.others(plan.kernel, plan.problem) if self._kernel == "auto" else []
        return [*own, *others]

    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """Tiles around the best, one number a step up or down in one of the products."""
        families = _families()
        kernel, tiles = families.from_config(config)
        found: list[Config] = families.beside(kernel, tiles, self._plan(cell).problem, chip.shared_bytes)
        return found

    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """The kernel's own interface, where it takes tiles; the launches are those of a plain call."""
        families = _families()
        kernel, tiles = families.from_config(config)
        launch: Launch = families.launch(kernel, tiles, self._plan(cell).problem, inputs)
        return launch

    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """``FOLDER/DEVICE.json`` as :mod:`dispatch.tables` reads it."""
        families, tables = _families(), importlib.import_module("dispatch.tables")
        path = Path()
        for each in chosen:
            problem = self._plan(each.cell).problem
            kernel, tiles = families.from_config(each.config)
            path = folder / f"{tables.normalise_device(problem.device.name)}.json"
            merged = tables.merge(read_json(path), kernel, problem, tiles, triton_version)
            write_json(path, merged)
        return [path] if chosen else []

    def _plan(self, cell: Cell) -> Any:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        sizes = {name: getattr(cell, name) for name in _SIZES}
        return self._dispatch.explain(**sizes, kernel=self._kernel, precision=cell.precision, device=device)


def _as_config(plan: Any) -> Config:
    tiles = {"gate_up": asdict(plan.config.gate_up), "down": asdict(plan.config.down)}
    return {"kernel": plan.kernel, **tiles}


def _families() -> Any:
    """Only a search needs it: a race also runs older revisions of ``dispatch``, which lack what it imports."""
    return importlib.import_module("producers.contestants.families")
