"""The run of a gate: worker processes with the model, and every configuration in the lake as it ends.

No torch is imported here. One worker on a GPU, several on a CPU: each takes the next configuration; one that
fails is refused, with a reason, and its worker is replaced.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from checks.policy import Policy
from producers import resume
from producers.environment import Environment
from producers.errors import PeerError, RefusedError, StoppedError
from producers.gate.lane import Lane
from producers.gate.plan import GateConfig, GatePlan
from producers.gate.recorder import GateRecorder, Row
from producers.gate.state import GateState, check_subject
from warehouse.errors import WarehouseError

REFERENCE_FILE = "reference.pt"


@dataclass
class Gate:
    """One invocation of a gate, new or resumed.

    Args:
        plan: what is compared.
        environment: device, machine and sources.
        policy: the thresholds, registered before anything runs.
        recorder: writes to the lake.
        state: what the lake holds of the run.
        lanes: one for each worker process.
        folder: where workers put large results.
        note: shows a line.
    """

    plan: GatePlan
    environment: Environment
    policy: Policy
    recorder: GateRecorder
    state: GateState
    lanes: list[Lane]
    folder: Path
    note: Callable[[str], None]
    _subject: dict[str, Any] = field(init=False, default_factory=dict)
    _reference: dict[str, Any] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _failure: BaseException | None = field(init=False, default=None)

    def run(self) -> None:
        """Measure what is not in the lake yet.

        Raises:
            StoppedError: a signal came; the run can be resumed.
            RefusedError: there is no reference to compare with; every configuration is refused.
            WarehouseError: the lake cannot be written.
        """
        try:
            self._register()
            self._measure_all()
            self._event("finished")
        except StoppedError as stop:
            self._event("stopped", detail=str(stop))
            raise
        except WarehouseError:
            raise  # the lake cannot take an event either
        except BaseException as error:
            self._event("interrupted", detail=str(error) or type(error).__name__)
            raise
        finally:
            for lane in self.lanes:
                lane.close(gently=self._failure is None)

    def check(self) -> None:
        """Raise what another lane raised; workers' waits call it."""
        if self._failure is not None:
            raise self._failure

    def _register(self) -> None:
        if not self.state.run.events:
            if not resume.has_policy(self.recorder.lake, self.policy.sha256):
                self.recorder.policy(self.policy.sha256, self.policy.text)
            self._event("started", plan_json=json.dumps(self.plan.asked, sort_keys=True))
        else:
            self._event("resumed")

    def _event(self, event: str, *, plan_json: str | None = None, detail: str | None = None) -> None:
        self.recorder.event(
            event,
            self.environment,
            self.policy.sha256,
            seed=self.plan.seed,
            plan_json=plan_json,
            detail=detail,
        )

    def _measure_all(self) -> None:
        left = [config for config in self.plan.configs if config.name not in self.state.done]
        if not left:
            return
        started_at = datetime.now(UTC)
        try:
            self._prepare(left)
        except PeerError as error:
            for config in left:
                self._refuse(config, started_at, error)
            raise RefusedError(f"There is no stock model to compare with ({error}).") from error
        check_subject(self.state, {**self._subject, **self._reference})
        queue: SimpleQueue[GateConfig] = SimpleQueue()
        for config in left:
            queue.put(config)
        with ThreadPoolExecutor(len(self.lanes)) as pool:
            done = [pool.submit(self._work, lane, queue) for lane in self.lanes]
        for future in done:
            if future.exception() is not None and self._failure is not None:
                raise self._failure

    def _prepare(self, left: list[GateConfig]) -> None:
        """Load the model everywhere at once, and run the stock model in the first worker."""
        del self.lanes[len(left) :]
        for lane in self.lanes:
            lane.begin()
        for lane in self.lanes:
            lane.ready()
        self._subject = dict(self.lanes[0].subject)
        self.note(
            f"{self._subject['model']}: {self._subject['positions']} positions in windows of "
            f"{self._subject['context_tokens']} tokens, {self._subject['layers']} layers of experts"
        )
        self._reference = self.lanes[0].ask("reference", file=str(self.folder / REFERENCE_FILE))

    def _work(self, lane: Lane, queue: SimpleQueue[GateConfig]) -> None:
        try:
            while True:
                try:
                    config = queue.get_nowait()
                except Empty:
                    return
                self._measure(lane, config)
        except BaseException as error:
            self._failure = self._failure or error
            raise

    def _measure(self, lane: Lane, config: GateConfig) -> None:
        started_at = datetime.now(UTC)
        file = self.folder / f"{config.name}.npz"
        try:
            if not lane.loaded:
                lane.ready()
            if {k: lane.subject.get(k) for k in self._subject} != self._subject:
                raise PeerError("inputs-differ", "the worker loaded another model or text", fatal=True)
            answer = lane.ask(
                "measure", config=config.name, file=str(file), reference=str(self.folder / REFERENCE_FILE)
            )
        except PeerError as error:
            self._refuse(config, started_at, error)
            return
        attempt = self.state.attempts.get(config.name, 0)
        row = self.recorder.row(config, attempt, started_at, {**self._subject, **self._reference}, answer)
        with np.load(file) as columns, self._lock:
            found = dict(columns)
            self.recorder.measured(row, answer["experts"], found, self.plan.context)
            self.note(_line(row, found))
        file.unlink()

    def _refuse(self, config: GateConfig, started_at: datetime, error: PeerError) -> None:
        attempt = self.state.attempts.get(config.name, 0)
        subject = {"model": self.plan.asked["model"], **self._subject, **self._reference}
        row = self.recorder.row(config, attempt, started_at, subject, error)
        with self._lock:
            self.recorder.refused(row)
            self.note(f"{config.name}: refused, {row['reason_code']}: {row['detail']}")


def _line(row: Row, columns: Mapping[str, np.ndarray[Any, Any]]) -> str:
    differ = ~columns["agree"]
    widest = float(columns["reference_gap_logits"][differ].max()) if differ.any() else 0.0
    shown = f"{row['config']}: {int(differ.sum())} of {differ.size} positions differ, widest gap {widest:.3f} logits"
    if row["kernel_calls"] is not None:
        shown += f", least kernel calls in a layer {row['kernel_calls']}"
    return f"{shown} ({row['duration_s']:.1f} s)" + (
        f"; VOID: {row['detail']}" if row["status"] == "void" else ""
    )
