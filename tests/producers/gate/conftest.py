"""A gate in this process: the real coordinator, worker, kernels and lake, a tiny model, no processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

# Triton reads this when it is imported; nothing of dispatch has imported it yet.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from checks.policy import load_policy
from producers import jsonlines
from producers.environment import CPU_DEVICE, Device, Environment, Sources
from producers.errors import PeerError
from producers.gate import state as states
from producers.gate.coordinator import Gate
from producers.gate.lane import Lane
from producers.gate.plan import GatePlan, make_plan
from producers.gate.recorder import GateRecorder
from producers.gate.state import GateState
from producers.gate.worker import GateWorker
from producers.models import seeded
from producers.resume import RunState
from warehouse.build import build
from warehouse.ids import new_run_id

Row = dict[str, Any]
REQUIRED = tuple(load_policy().by_path["gate", "required"])
ENVIRONMENT = Environment(Device(CPU_DEVICE, "cpu-one"), Sources(None, "sources", None), "host", "platform")


class LocalPeer:
    """A worker without a process: requests and replies pass through JSON all the same."""

    def __init__(self, worker: GateWorker) -> None:
        self._handlers = worker.handlers()
        self._asked: Row = {}

    def send(self, op: str, **fields: Any) -> None:
        """Keep the request."""
        self._asked = json.loads(json.dumps({"op": op, **fields}))

    def receive(self, timeout_s: float) -> Row:  # noqa: ARG002 - as a Peer has it
        """Answer it."""
        with torch.no_grad():
            answer = jsonlines._answer(self._handlers, self._asked, None)
        reply: Row = json.loads(json.dumps(answer, allow_nan=False))
        if not reply["ok"]:
            fatal = bool(reply.get("sticky"))
            raise PeerError(reply["reason_code"], reply["detail"], fatal=fatal, fault=reply["fault"])
        return reply

    def request(self, op: str, timeout_s: float, **fields: Any) -> Row:
        """Both."""
        self.send(op, **fields)
        return self.receive(timeout_s)

    def close(self, *, gently: bool = True) -> None:
        """Nothing to end."""


class LocalGate:
    """Runs gates into one lake, and reads what came of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.notes: list[str] = []

    def plan(self, configs: Sequence[str] = REQUIRED, **changes: Any) -> GatePlan:
        """What the tests run: the policy's least of positions, as four windows."""
        policy = load_policy()
        plan = make_plan(
            model="tiny-mixtral",
            configs=configs,
            positions=None,
            context=259,
            text=None,
            seed=0,
            least_positions=int(policy.by_path["gate", "min_positions"]),
        )
        return replace(plan, **changes)

    def run(
        self,
        configs: Sequence[str] = REQUIRED,
        *,
        plan: GatePlan | None = None,
        resume: str | None = None,
        start: Callable[[], LocalPeer] | None = None,
    ) -> str:
        """Run, or go on with, a gate; return its run."""
        plan = plan or self.plan(configs)
        state = states.find(self.lake, resume) if resume else GateState(RunState(new_run_id()))
        model = {
            "model": plan.model,
            "seed": plan.seed,
            "text": plan.text,
            "windows": plan.windows,
            "context": plan.context,
            "batch": 4,
        }
        lane: Any = Lane(start or (lambda: LocalPeer(GateWorker())), model, 60.0)  # type: ignore[arg-type, return-value]
        recorder = GateRecorder(self.lake, state.run.run_id, state.run.next_event)
        gate = Gate(
            plan,
            ENVIRONMENT,
            load_policy(),
            recorder,
            state,
            [lane],
            self.folder,
            self.notes.append,
        )
        gate.run()
        return state.run.run_id

    def query(self, sql: str) -> list[Row]:
        """Rows of a query over the built warehouse."""
        db = self.folder / "warehouse.db"
        build([self.lake], db)
        with duckdb.connect(str(db), read_only=True) as con:
            cursor = con.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def results(self) -> dict[str, Row]:
        """Rows of ``gate_results`` by configuration."""
        return {row["config"]: row for row in self.query("SELECT * FROM gate_results")}


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model with logits so near each other that one token sent to another expert is no large gap."""
    monkeypatch.setattr(seeded, "_TINY_STD", 0.1)


@pytest.fixture
def local_gate(tmp_path: Path, calm: None) -> LocalGate:
    """A gate over the calm tiny model, in a folder of its own."""
    return LocalGate(tmp_path)
