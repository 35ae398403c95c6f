"""One unit of a race: the rounds that one session gives to one cell, in every timing mode.

Contestants are prepared side by side, then sampled one at a time in each round's shuffled order. Who
fails leaves the unit without samples and with a refusal; the others go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from producers.crew import Crew
from producers.errors import PeerError, RefusedError
from producers.outcomes import REASONS
from producers.plan import Cell, Plan
from producers.process import Reply
from producers.recorder import Recorder, Row

ALL_MODES = "all"


@dataclass
class Unit:
    """Measures (session, cell) and holds its rows until they are appended.

    Args:
        plan: the race.
        cell: the cell.
        session: which session.
        crew: this session's workers, weights loaded.
        recorder: makes the verdict rows.
        check: raises StoppedError between rounds when the race has to stop.
        card_columns: the card's state now as columns of ``device_states``; empty where there is no card.
    """

    plan: Plan
    cell: Cell
    session: int
    crew: Crew
    recorder: Recorder
    check: Callable[[], None]
    card_columns: Callable[[], dict[str, Any]]
    verdicts: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    _samples: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @property
    def samples(self) -> list[Row]:
        """The samples of everybody who stands unrefused in a mode."""
        return [row for rows in self._samples.values() for row in rows]

    def refuse(self, name: str, mode: str, stage: str, failure: PeerError) -> None:
        """Record a refusal and drop what was sampled of ``name`` in ``mode`` (or in all)."""
        verdict = {
            "status": "refused",
            "reason_code": failure.reason_code,
            "fault": failure.fault,
            "detail": failure.detail,
        }
        self._note(name, mode, stage, verdict)

    def _note(self, name: str, mode: str, stage: str, verdict: Mapping[str, Any]) -> bool:
        """Keep a verdict; returns whether it passed."""
        passed = verdict.get("status") == "passed"
        if not passed:
            verdict = {**verdict, **_reason(verdict)}
            for key in [k for k in self._samples if k[0] == name and mode in (ALL_MODES, k[1])]:
                del self._samples[key]
        self.verdicts.append(
            self.recorder.verdict(self.cell.cell_id, name, mode, self.session, stage, verdict)
        )
        return passed

    def measure(
        self,
        modes_of: Mapping[str, Iterable[str]],
        ready: Iterable[str],
        fields: Mapping[str, Any],
        sha256: str,
    ) -> None:
        """Prepare, sample, finish and release.

        Args:
            modes_of: contestant -> the modes in which it still races.
            ready: those of them who have a worker with weights.
            fields: what ``prepare`` needs (folder, tolerance).
            sha256: of the inputs as drawn.

        Raises:
            RefusedError: somebody received other inputs.
            StoppedError: between two rounds.
        """
        ready = list(ready)
        for name in modes_of:
            if name not in ready:
                self.refuse(name, ALL_MODES, *self._why_missing(name))
        racing = self._prepare({name: list(modes_of[name]) for name in ready}, fields, sha256)
        for mode in self.plan.modes:
            self._rounds(mode, {name for name, modes in racing.items() if mode in modes})
        self._finish(racing)
        self._ask_all("release", [name for name in racing if self.crew.has(name)])

    def _why_missing(self, name: str) -> tuple[str, PeerError]:
        stage, failure = self.crew.missing[name]
        if stage in {"start", "load"}:
            return stage, failure
        detail = f"given up for this session after its failures; the last: {failure}"
        return "start", PeerError("worker-did-not-start", detail, fatal=True)

    def _prepare(
        self, modes_of: Mapping[str, list[str]], fields: Mapping[str, Any], sha256: str
    ) -> dict[str, list[str]]:
        """Contestant -> modes in which it passed."""
        asked = {
            name: {**fields, "cell": self.cell.row(), "modes": modes} for name, modes in modes_of.items()
        }
        racing: dict[str, list[str]] = {}
        for name, answer in self.crew.ask("prepare", asked).items():
            if isinstance(answer, PeerError):
                self.refuse(name, ALL_MODES, "prepare", answer)
                continue
            verdicts = self._verdicts_of(name, answer, "prepare")
            received = answer.get("inputs_sha256")
            if received is not None and received != sha256:
                detail = f"received inputs {received}, drawn were {sha256}"
                self.refuse(name, ALL_MODES, "prepare", PeerError("inputs-differ", detail, fatal=True))
                self.recorder.verdicts(self.verdicts)
                raise RefusedError(
                    f"'{name}' received other inputs in {self.cell.cell_id} than were drawn; nothing it "
                    "would measure could be compared. Look for a worker that changes what it loads."
                )
            passed = {
                mode: self._note(name, mode, "prepare", {"inputs_sha256": received, **verdict})
                for mode, verdict in verdicts.items()
            }
            common = passed.pop(ALL_MODES, True)
            racing[name] = [
                mode for mode in asked[name]["modes"] if common and passed.get(mode, bool(verdicts))
            ]
        return racing

    def _verdicts_of(self, name: str, answer: Reply, stage: str) -> dict[str, dict[str, Any]]:
        verdicts = answer.get("verdicts")
        if isinstance(verdicts, dict) and verdicts and all(isinstance(v, dict) for v in verdicts.values()):
            if any(v.get("reason_code") == "illegal-memory" for v in verdicts.values()):
                self.crew.retire(
                    name, PeerError("worker-died", "replaced after an illegal access", fatal=True)
                )
            return verdicts
        failure = PeerError("worker-garbage", f"'{stage}' answered without verdicts", fatal=True)
        self.crew.retire(name, failure)
        return {
            ALL_MODES: {"status": "refused", "reason_code": failure.reason_code, "detail": failure.detail}
        }

    def _rounds(self, mode: str, racing: set[str]) -> None:
        for round_ in self.plan.rounds_of(self.session):
            self.check()
            names = [name for name in racing if self.crew.has(name)]
            for position, name in enumerate(self.plan.order(self.cell, mode, round_, names)):
                try:
                    times, l2_state = self._sample(name, mode)
                except PeerError as failure:
                    racing.discard(name)
                    self.refuse(name, ALL_MODES if failure.fatal else mode, "sample", failure)
                    continue
                rows = self._samples.setdefault((name, mode), [])
                rows += [
                    {
                        "run_id": self.recorder.run_id,
                        "cell_id": self.cell.cell_id,
                        "contestant": name,
                        "timing_mode": mode,
                        "session": self.session,
                        "round": round_,
                        "position": position,
                        "sample": index,
                        "time_us": time_us,
                        "l2_state": l2_state,
                    }
                    for index, time_us in enumerate(times)
                ]
            self._note_card(mode, round_)

    def _sample(self, name: str, mode: str) -> tuple[list[float], str]:
        """S times in microseconds and the state of the L2 cache before each."""
        answer = self.crew.ask("sample", {name: {"mode": mode, "samples": self.plan.samples}})[name]
        if isinstance(answer, PeerError):
            raise answer
        times, l2_state = answer.get("times_us"), answer.get("l2_state")
        good = (
            isinstance(times, list)
            and len(times) == self.plan.samples
            and all(isinstance(t, (int, float)) and math.isfinite(t) and t > 0 for t in times)
            and isinstance(l2_state, str)
        )
        if not good or not isinstance(times, list):
            failure = PeerError(
                "worker-garbage", f"'sample' answered no {self.plan.samples} times over 0", fatal=True
            )
            self.crew.retire(name, failure)
            raise failure
        return [float(t) for t in times], str(l2_state)

    def _note_card(self, mode: str, round_: int) -> None:
        columns = self.card_columns()
        if columns:
            self.states.append(
                {
                    "run_id": self.recorder.run_id,
                    "cell_id": self.cell.cell_id,
                    "timing_mode": mode,
                    "round": round_,
                    "session": self.session,
                    "recorded_at": datetime.now(UTC),
                    **columns,
                }
            )

    def _finish(self, racing: Mapping[str, list[str]]) -> None:
        """Check the outputs of the timed launches; samples without a passed check are dropped."""
        names = sorted({name for name, _ in self._samples})
        for name, answer in self._ask_all("finish", names).items():
            if isinstance(answer, PeerError):
                self.refuse(name, ALL_MODES, "timed-output", answer)
                continue
            verdicts = self._verdicts_of(name, answer, "finish")
            for mode, verdict in verdicts.items():
                self._note(name, mode, "timed-output", verdict)
            for mode in racing[name]:
                if (name, mode) in self._samples and mode not in verdicts:
                    detail = f"'finish' gave no verdict for mode {mode}"
                    self.refuse(name, mode, "timed-output", PeerError("worker-garbage", detail, fatal=False))

    def _ask_all(self, op: str, names: Iterable[str]) -> dict[str, Reply | PeerError]:
        return self.crew.ask(op, {name: {} for name in names})


def _reason(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Status, code and fault of a refusal; a code that nobody knows counts as a crash, and is quoted."""
    code, detail = str(verdict.get("reason_code")), str(verdict.get("detail") or "no detail")
    if code not in REASONS:
        code, detail = "crashed", f"{code}: {detail}"
    return {"status": "refused", "reason_code": code, "fault": REASONS[code].fault, "detail": detail}


def card_columns(state: Any) -> dict[str, Any]:
    """A card state as columns of ``device_states``; empty where nothing is known (no card)."""
    columns = asdict(state)
    return columns if any(value is not None for value in columns.values()) else {}
