"""Rows of table ``tuning``, and what an interrupted run already has of a problem."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from producers.plan import Cell
from producers.recorder import scrub
from producers.tune.search import Config, Outcome, Trial, key
from warehouse.append import append

Row = dict[str, Any]

CONFIRM = "confirm"


@dataclass(frozen=True)
class Problem:
    """What one configuration is chosen for: a contestant, a shape, a precision and a token count.

    Attributes:
        contestant: who.
        cells: the cells, which differ in routing alone.
    """

    contestant: str
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """How messages call it."""
        cell = self.cells[0]
        return f"{self.contestant} in {cell.workload}/{cell.precision}/{cell.tokens}"


def problems_of(contestant: str, cells: Iterable[Cell]) -> list[Problem]:
    """The problems that some cells make, in their order."""
    grouped: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.workload, cell.precision, cell.tokens), []).append(cell)
    return [Problem(contestant, tuple(group)) for group in grouped.values()]


class Journal:
    """Appends the trials of one run.

    Args:
        lake: the lake's folder.
        run_id: of the run.
        timing_mode: ``graph``, or ``eager`` under the interpreter.
        versions: contestant -> its worker's answer to hello.
        known: rows that the lake has of the run already.
    """

    def __init__(
        self,
        lake: Path,
        run_id: str,
        timing_mode: str,
        versions: Mapping[str, Mapping[str, Any]],
        known: Sequence[Row] = (),
    ) -> None:
        self._lake = lake
        self._run_id = run_id
        self._timing_mode = timing_mode
        self._versions = versions
        self._known = list(known)

    def trials(self, problem: Problem) -> list[Trial]:
        """What the run has tried for a problem so far, in order."""
        cells = {cell.cell_id for cell in problem.cells}
        rows = [r for r in self._known if r["contestant"] == problem.contestant and r["cell_id"] in cells]
        grouped: dict[int, list[Row]] = {}
        for row in rows:
            grouped.setdefault(int(row["trial"]), []).append(row)
        return [
            Trial(
                number,
                str(group[0]["stage"]),
                json.loads(group[0]["config_json"]),
                {str(row["cell_id"]): _outcome(row) for row in group},
            )
            for number, group in sorted(grouped.items())
        ]

    def chosen(self, problem: Problem) -> Config | None:
        """What was chosen for a problem that is done; None if it is not."""
        cells = {cell.cell_id for cell in problem.cells}
        rows = [r for r in self._known if r["contestant"] == problem.contestant and r["cell_id"] in cells]
        if not any(row["stage"] == CONFIRM for row in rows):
            return None
        last = max((row for row in rows if row["chosen"]), key=lambda row: int(row["trial"]))
        config: Config = json.loads(last["config_json"])
        return config

    def append(self, problem: Problem, trials: Sequence[Trial], *, default: Config, chosen: Config) -> None:
        """Write new trials; the last one of ``chosen`` among them is marked.

        Raises:
            WarehouseError: the lake cannot be written.
        """
        marked = max((t.number for t in trials if key(t.config) == key(chosen)), default=None)
        versions = self._versions.get(problem.contestant, {})
        rows = [
            {
                "run_id": self._run_id,
                "cell_id": cell_id,
                "contestant": problem.contestant,
                "trial": trial.number,
                "stage": trial.stage,
                "recorded_at": datetime.now(UTC),
                "config_json": key(trial.config),
                "is_default": key(trial.config) == key(default),
                "chosen": trial.number == marked,
                "status": "passed" if outcome.passed else "refused",
                "reason_code": outcome.reason_code,
                "fault": outcome.fault,
                "detail": None if outcome.detail is None else scrub(outcome.detail),
                "relative_error": outcome.relative_error,
                "times_us": list(outcome.times_us) or None,
                "timing_mode": self._timing_mode,
                "package_version": versions.get("package_version"),
                "triton_version": versions.get("triton_version"),
            }
            for trial in trials
            for cell_id, outcome in trial.outcomes.items()
        ]
        if rows:
            append(self._lake, "tuning", rows)
            self._known += rows


def _outcome(row: Row) -> Outcome:
    return Outcome(
        tuple(row["times_us"] or ()),
        row["relative_error"],
        row["reason_code"],
        row["fault"],
        row["detail"],
    )
