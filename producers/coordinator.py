"""Runs a planned race: sessions, cells, rounds; every unit is in the lake before the next begins.

docs/architecture.md has the protocol. No torch is imported here: inputs are drawn and checked by the
referee process, contestants run in worker processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from producers import resume
from producers.budget import Budget
from producers.crew import Crew
from producers.drawing import Drawn, draw, weights_of
from producers.environment import Environment
from producers.errors import PeerError, RefusedError, StoppedError
from producers.plan import Cell, Entrant, Plan
from producers.process import Peer, Reply
from producers.recorder import Recorder, Row
from producers.resume import RunState
from producers.unit import ALL_MODES, Unit, card_columns
from warehouse.errors import WarehouseError

DEFAULT_TIMEOUT_S = 600.0


class Policy(Protocol):
    """What a race needs of the thresholds."""

    @property
    def sha256(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    def tolerance(self, precision: str) -> float: ...  # noqa: D102


class Processes(Protocol):
    """Starts workers and the referee (:class:`producers.scratch.Scratch`)."""

    @property
    def inputs(self) -> Path: ...  # noqa: D102
    def worker(self, entrant: Entrant, poll: Callable[[], None]) -> Peer: ...  # noqa: D102
    def referee(self, poll: Callable[[], None]) -> Peer: ...  # noqa: D102


class Progress(Protocol):
    """Told of what happens (:class:`producers.progress.Progress`)."""

    def begin(self, units: int) -> None: ...  # noqa: D102
    def note(self, text: str) -> None: ...  # noqa: D102
    def unit_done(self, session: int, cell_id: str) -> None: ...  # noqa: D102


@dataclass
class Race:
    """One invocation of a race, new or resumed.

    Args:
        plan: what is raced.
        environment: device, machine and sources.
        policy: the thresholds.
        recorder: writes to the lake.
        state: what the lake holds of the run (empty for a new one); kept up to date.
        processes: starts workers and the referee.
        budget: when to stop.
        progress: told of what happens.
        timeout_s: longest wait for one answer of a process.
    """

    plan: Plan
    environment: Environment
    policy: Policy
    recorder: Recorder
    state: RunState
    processes: Processes
    budget: Budget
    progress: Progress
    timeout_s: float = DEFAULT_TIMEOUT_S
    _announced: bool = field(init=False, default=False)
    _shown: set[tuple[str, ...]] = field(init=False, default_factory=set)

    def run(self) -> None:
        """Measure what is not in the lake yet.

        Raises:
            StoppedError: the budget is spent or a signal came; the run can be resumed.
            RefusedError: the numbers could not be trusted; the run is marked interrupted.
            WarehouseError: the lake cannot be written.
        """
        try:
            self._register()
            self._run_sessions()
            self._event("finished")
        except StoppedError as stop:
            self._event("stopped", detail=str(stop))
            raise
        except WarehouseError:
            raise  # the lake cannot take an event either
        except BaseException as error:
            self._event("interrupted", detail=str(error) or type(error).__name__)
            raise

    # ---- before the first measurement ----

    def _register(self) -> None:
        if not self.state.events:
            if not resume.has_policy(self.recorder.lake, self.policy.sha256):
                self.recorder.policy(self.policy.sha256, self.policy.text)
            self._event("started", plan_json=json.dumps(self.plan.asked, sort_keys=True))
        self.recorder.roster(
            seat for seat in self.plan.seats if (seat.contestant, seat.precision) not in self.state.seats
        )

    def _event(self, event: str, *, plan_json: str | None = None, detail: str | None = None) -> None:
        self.recorder.event(
            event,
            self.environment,
            self.policy.sha256,
            seed=self.plan.seed,
            plan_json=plan_json,
            detail=detail,
        )

    def _draw(self, cells: list[Cell]) -> Drawn:
        """Have the inputs of ``cells`` drawn, and record the cells, the drawn and those that could not be."""
        drawn = draw(
            cells,
            lambda: self.processes.referee(self.budget.check),
            self.processes.inputs,
            seed=self.plan.seed,
            timeout_s=self.timeout_s,
            note=self.progress.note,
        )
        for cell_id, reply in drawn.cells.items():
            if self.state.inputs.get(cell_id, reply["inputs_sha256"]) != reply["inputs_sha256"]:
                raise RefusedError(
                    f"The inputs of {cell_id} drawn now differ from those of the run (same seed, other "
                    "torch?); start a new race."
                )
        new = [c for c in cells if c.cell_id in drawn.cells and c.cell_id not in self.state.inputs]
        self.recorder.cells(new, drawn.cells, self.plan.seed)
        self.state.inputs |= {cell.cell_id: str(drawn.cells[cell.cell_id]["inputs_sha256"]) for cell in new}
        return drawn

    def _refuse_before(self, failures: Mapping[str, PeerError]) -> None:
        """Record who cannot race before anybody does: rivals left out, and all in cells without inputs."""
        known = {
            (row["cell_id"], row["contestant"], row["reason_code"])
            for row in self.state.verdicts
            if row["stage"] == "plan"
        }
        rows = []
        for cell in self.plan.cells:
            absent = {
                seat.contestant: (
                    "left-out",
                    f"the policy requires '{seat.contestant}' and it was not entered",
                )
                for seat in self.plan.left_out(cell.precision)
            }
            failure = failures.get(cell.cell_id)
            if failure is not None:
                why = (failure.reason_code, f"the inputs of the cell could not be drawn: {failure.detail}")
                absent |= {e.name: why for e in self.plan.entrants if cell.precision in e.precisions}
            for name, (code, detail) in absent.items():
                if (cell.cell_id, name, code) in known:
                    continue
                verdict = {
                    "status": "refused",
                    "reason_code": code,
                    "fault": "environment",
                    "detail": detail,
                }
                rows.append(self.recorder.verdict(cell.cell_id, name, ALL_MODES, 0, "plan", verdict))
        self.recorder.verdicts(self._keep(rows))

    # ---- measuring ----

    def _todo(self) -> dict[int, list[Cell]]:
        """Session -> cells whose unit is not in the lake and may be measured on this card."""
        first = self.plan.sessions * self.state.card_index(self.environment.device.device_uuid)
        sessions = range(first, first + self.plan.sessions)
        foreign = {cell_id for session, cell_id in self.state.done if session not in sessions}
        if foreign:
            self.progress.note(f"{len(foreign)} cells were begun on another card and are left as they are")
        todo = {
            session: [
                cell
                for cell in self.plan.cells
                if (session, cell.cell_id) not in self.state.done and cell.cell_id not in foreign
            ]
            for session in sessions
        }
        return {session: cells for session, cells in todo.items() if cells}

    def _run_sessions(self) -> None:
        todo = self._todo()
        wanted = {cell.cell_id for cells in todo.values() for cell in cells}
        cells = [cell for cell in self.plan.cells if cell.cell_id in wanted]
        self.progress.begin(sum(len(cells) for cells in todo.values()))
        drawn = self._draw(cells)
        self._refuse_before(drawn.failures)
        for cell_id, failure in drawn.failures.items():
            self.progress.note(f"left incomplete: {cell_id}, its inputs could not be drawn ({failure})")
        for session, session_cells in todo.items():
            ready = [cell for cell in session_cells if cell.cell_id in drawn.cells]
            if ready:
                self._run_session(session, ready, drawn)

    def _run_session(self, session: int, cells: list[Cell], drawn: Drawn) -> None:
        absent = {row["contestant"] for row in self.state.verdicts if row["reason_code"] == "not-installed"}
        crew = Crew(
            {entrant.name: entrant for entrant in self.plan.entrants},
            lambda entrant: self.processes.worker(entrant, self.budget.check_signal),
            self.timeout_s,
            lambda entrant, hello: self._greeted(session, entrant, hello),
        )
        self.progress.note(
            f"session {session % self.plan.sessions + 1} of {self.plan.sessions}: starting workers"
        )
        done = False
        try:
            for name in absent:
                failure = PeerError("not-installed", "not installed when the race began", fatal=True)
                crew.missing[name] = ("start", failure)
            crew.start(name for name in self._racing(cells) if name not in absent)
            self._resumed()
            for cell in cells:
                self._run_unit(
                    session, cell, crew, drawn.cells[cell.cell_id], drawn.weights[weights_of(cell)]
                )
            done = True
        finally:
            crew.close(gently=done)

    def _racing(self, cells: list[Cell]) -> list[str]:
        """Entrants with a mode left to race in one of ``cells``."""
        return [e.name for e in self.plan.entrants if any(self._modes(e, cell) for cell in cells)]

    def _modes(self, entrant: Entrant, cell: Cell) -> list[str]:
        """Modes in which an entrant races in a cell: none once it was refused by its own fault."""
        if cell.precision not in entrant.precisions:
            return []
        barred = {
            mode
            for cell_id, name, mode in self.state.barred()
            if (cell_id, name) == (cell.cell_id, entrant.name)
        }
        return [] if ALL_MODES in barred else [mode for mode in self.plan.modes if mode not in barred]

    def _greeted(self, session: int, entrant: Entrant, hello: Reply) -> None:
        """Check a worker's answer to hello and record it.

        Raises:
            PeerError: the worker does not run on the race's device.
            RefusedError: it is another program than before in this run.
        """
        device = self.environment.device
        uuid = hello.get("device_uuid")
        if device.is_cuda and (uuid is None or _bare(uuid) != _bare(device.device_uuid)):
            seen = hello.get("device") or "no CUDA device"
            detail = f"the worker sees {seen}, not the card of the race (is its torch a CUDA build?)"
            raise PeerError("worker-did-not-start", detail, fatal=True)
        resume.check_versions(self.state, entrant.name, hello)
        key = (entrant.name, session)
        if key not in self.state.workers:
            self.recorder.worker(entrant.name, session, hello, self.environment)
            self.state.workers[key] = {column: hello.get(column) for column in resume.VERSION_COLUMNS}

    def _resumed(self) -> None:
        """Note a resumption once the first workers have shown that they are the programs of before."""
        if self.state.events and not self._announced:
            self._event("resumed")
            self._announced = True

    def _run_unit(self, session: int, cell: Cell, crew: Crew, drawn: Reply, weights: Reply) -> None:
        self.budget.check()
        modes_of = {
            entrant.name: modes for entrant in self.plan.entrants if (modes := self._modes(entrant, cell))
        }
        unit = Unit(
            self.plan,
            cell,
            session,
            crew,
            self.recorder,
            self.budget.check,
            lambda: card_columns(self.environment.state()),
        )
        ready = crew.ready(modes_of, weights["folder"], cell.precision)
        fields = {"folder": drawn["folder"], "tolerance": self.policy.tolerance(cell.precision)}
        unit.measure(modes_of, ready, fields, drawn["inputs_sha256"])
        self.recorder.unit(self._keep(unit.verdicts), unit.states, unit.samples)
        for row in unit.samples:
            self.state.done.add((session, cell.cell_id))
            self.state.measured.add((session, cell.cell_id, row["contestant"], row["timing_mode"]))
        self._show_refusals(unit.verdicts)
        self.progress.unit_done(session, cell.cell_id)

    def _show_refusals(self, verdicts: list[Row]) -> None:
        """Show each refusal the first time that it comes; the lake has every one."""
        for row in verdicts:
            key = (row["cell_id"], row["contestant"], row["timing_mode"], row["reason_code"])
            if row["status"] == "refused" and key not in self._shown:
                self._shown.add(key)
                self.progress.note(
                    f"refused: {row['contestant']} in {row['cell_id']} ({row['timing_mode']}), "
                    f"{row['reason_code']}: {row['detail']}"
                )

    def _keep(self, verdicts: list[Row]) -> list[Row]:
        """Add verdicts to the state; returns those that the lake does not have.

        A unit that was killed between its verdicts and its samples is measured again and says the same.
        """
        known = {_identity(row) for row in self.state.verdicts}
        new = [row for row in verdicts if _identity(row) not in known]
        self.state.verdicts += new
        return new


def _identity(verdict: Row) -> tuple[str | int, ...]:
    """What makes two verdicts the same: the table's identity, and what they say."""
    columns = ("cell_id", "contestant", "timing_mode", "session", "stage", "status")
    return tuple(verdict[column] for column in columns)


def _bare(uuid: str) -> str:
    """A card's UUID without the prefix that only some libraries give."""
    return uuid.removeprefix("GPU-").lower()
