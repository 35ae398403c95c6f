"""Real referee and worker processes for tests, on the CPU under Triton's interpreter."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from producers.process import Peer
from producers.workloads import WORKLOADS, Cell, Workload

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SMALL = WORKLOADS["interpreter-small"]
TOLERANCE = {"bf16": 0.01, "fp16": 0.005, "int8_w8a16": 0.01, "int8_w8a8": 0.03}
TIMEOUT_S = 120.0


def start(module: str, folder: Path, *import_paths: Path) -> Peer:
    """``python -m module`` with a neutral working folder, one thread and no CUDA device."""
    paths = os.pathsep.join(str(path) for path in (*import_paths, ROOT))
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    env |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    log = folder / f"{module}.log"
    return Peer(module, [sys.executable, "-m", module], env=env, cwd=folder, log=log, poll=lambda: None)


def small_cell(precision: str = "bf16", tokens: int = 4, routing: str = "uniform") -> Cell:
    """A cell of the interpreter's workload."""
    zipf_s = {"uniform": None, "zipf": 1.0}[routing]
    shape = (SMALL.experts, SMALL.top_k, SMALL.hidden, SMALL.intermediate)
    cell_id = f"{SMALL.name}/{precision}/{routing}/{tokens}"
    return Cell(cell_id, SMALL.name, *shape, precision, routing, zipf_s, tokens)


@dataclass
class Drawn:
    """What a referee drew: folders and its answers."""

    cell: Cell
    weights: dict[str, Any]
    answer: dict[str, Any]

    def prepare_fields(self, *modes: str) -> dict[str, Any]:
        """The fields of a worker's ``prepare``."""
        return {
            "folder": self.answer["folder"],
            "cell": asdict(self.cell),
            "modes": list(modes or ("eager",)),
            "tolerance": TOLERANCE[self.cell.precision],
        }


def draw(referee: Peer, scratch: Path, cell: Cell, seed: int = 0) -> Drawn:
    """Weights and inputs of a cell."""
    fields = {"scratch": str(scratch), "seed": seed}
    workload = Workload(cell.workload, cell.experts, cell.top_k, cell.hidden, cell.intermediate)
    weights = referee.request(
        "weights", TIMEOUT_S, workload=asdict(workload), precision=cell.precision, **fields
    )
    return Drawn(cell, weights, referee.request("cell", TIMEOUT_S, cell=asdict(cell), **fields))


def ready_worker(folder: Path, contestant: str, drawn: Drawn, *import_paths: Path) -> Peer:
    """A worker that has said hello and loaded the weights."""
    worker = start("producers.worker", folder, *import_paths, HERE)
    worker.request("hello", TIMEOUT_S, contestant=contestant, options={})
    worker.request("load", TIMEOUT_S, folder=drawn.weights["folder"], precision=drawn.cell.precision)
    return worker
