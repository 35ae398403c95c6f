"""The workers' side of a tuning run: who tries what, in which order, with which share of the time.

A problem takes two steps: a first pass over its candidates, and a second one around its best with the final
comparison. What a step needs is compiled while other steps are timed: everything of the first passes at the
start, the neighbours of a best one while the next problem has its first pass. Contestants take turns, and
every step gets the same share of what time is left: nobody searches longer than another.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from producers.crew import Crew
from producers.drawing import Drawn, weights_of
from producers.errors import PeerError, RefusedError, StoppedError
from producers.outcomes import REASONS
from producers.process import Reply
from producers.tune.record import Journal, Problem
from producers.tune.search import Config, Outcome, Search, Trial, key

_POLL_S = 0.05
# Of a problem's time, the first pass; the rest is for the second and the comparison.
_FIRST_SHARE = 0.6


@dataclass
class Task:
    """A problem on its way."""

    problem: Problem
    default: Config
    candidates: list[Config]
    search: Search | None = None
    done: bool = False


@dataclass
class Tuning:
    """One invocation of a tuning run.

    Args:
        crew: a worker for each contestant, greeted.
        journal: what is known, and where rows go.
        tolerance: of a precision.
        limit: most candidates of a problem's first pass; its second has half as many.
        budget_s: wall seconds for everything that is timed, for all contestants together.
        check: raises StoppedError where a signal came.
        note: told of what happens.
        out: folder of the tables.
        clock: seconds, monotonic.
    """

    crew: Crew
    journal: Journal
    tolerance: Callable[[str], float]
    limit: int
    budget_s: float
    check: Callable[[], None]
    note: Callable[[str], None]
    out: Path
    clock: Callable[[], float] = time.monotonic
    tasks: list[Task] = field(default_factory=list)
    refused: dict[Problem, PeerError] = field(default_factory=dict)
    _deadline: float = 0.0
    _steps_left: float = 0.0
    _at_a_time: int = 1

    def plan(self, problems: Sequence[Problem]) -> None:
        """Ask for the candidates of every problem that is not done, and have them compiled."""
        contestants = len({problem.contestant for problem in problems})
        # Somewhat more than there are cores, for one compiler ends before another; they give way to who times.
        self._at_a_time = max(1, (os.cpu_count() or 1) // max(1, min(2, contestants)))
        for problem in problems:
            self.check()
            cell = problem.cells[0].row()
            chosen = self.journal.chosen(problem)
            try:
                if chosen is not None:
                    self._write_tables(problem, chosen)  # the last thing that a kill may have prevented
                    continue
                said = self._ask(problem, "candidates", cell=cell)
                texts = [str(text) for text in said["candidates"][: self.limit]]
                wanted = [said["default"], *texts]
                self._compile(problem, wanted, urgent=False)
            except PeerError as error:
                self._refuse(problem, error)
                continue
            self.tasks.append(Task(problem, _config(said["default"]), [_config(text) for text in texts]))

    def run(self, drawn: Drawn) -> None:
        """Search, problem by problem; rows are in the lake after every step.

        Raises:
            StoppedError: a signal came. What was tried is in the lake.
        """
        for task in self.tasks:
            failures = [drawn.failures[c.cell_id] for c in task.problem.cells if c.cell_id in drawn.failures]
            if failures:
                task.done = True
                self._refuse(task.problem, failures[0])
        self.tasks = [task for task in self.tasks if not task.done]
        self._deadline = self.clock() + self.budget_s
        self._steps_left = float(len(self.tasks))
        for weights in dict.fromkeys(weights_of(task.problem.cells[0]) for task in self.tasks):
            tasks = [task for task in self.tasks if weights_of(task.problem.cells[0]) == weights]
            for task, is_first in _interleaved(tasks):
                share = _FIRST_SHARE if is_first else 1 - _FIRST_SHARE
                left = max(0.0, self._deadline - self.clock())
                until = self.clock() + left * share / max(self._steps_left, share)
                self._steps_left -= share
                if not task.done:
                    self._step(task, drawn, is_first=is_first, until=until)

    def _step(self, task: Task, drawn: Drawn, *, is_first: bool, until: float) -> None:
        self.check()
        problem = task.problem
        try:
            self._enter(problem, drawn)
        except PeerError as error:
            self._give_up(task, error)
            return
        if task.search is None:
            known = self.journal.trials(problem)
            task.search = Search(
                task.default, lambda config, samples: self._trial(problem, config, samples, drawn),
                lambda: True, known,
            )  # fmt: skip
        search = task.search
        search.may_go_on = lambda: self._may_go_on(until)
        before = len(search.trials)
        chosen = None
        try:
            if is_first:
                search.screen(self._ready(problem, task.candidates, until))
                left = search.untried(task.candidates)  # not compiled in time, or no time
                task.candidates = [*self._prepare_neighbours(problem, search.best()), *left]
            else:
                search.refine(self._ready(problem, task.candidates, until))
                chosen = search.confirm()
            spoiled = self._leave(problem)
        except PeerError as error:  # its worker is gone for good
            self._record(task, search.trials[before:], search.best())
            self._give_up(task, error)
            return
        except StoppedError:
            self._record(task, search.trials[before:], search.best())
            raise
        if spoiled is not None:
            trials = [replace(t, outcomes=dict.fromkeys(t.outcomes, spoiled)) for t in search.trials[before:]]
            self._record(task, trials, task.default)
            self._give_up(task, PeerError(str(spoiled.reason_code), str(spoiled.detail), fatal=False))
            return
        self._record(task, search.trials[before:], chosen or search.best())
        if chosen is not None:
            task.done = True
            self.note(
                f"{problem.label}: {len(search.trials)} trials, {search.score(chosen):.3f} of the default's time "
                f"with {key(chosen)}"
            )
            self._save(problem, chosen)

    def _record(self, task: Task, trials: Sequence[Trial], chosen: Config) -> None:
        self.journal.append(task.problem, trials, default=task.default, chosen=chosen)

    def _give_up(self, task: Task, error: PeerError) -> None:
        task.done = True
        self._refuse(task.problem, error)

    def _may_go_on(self, until: float) -> bool:
        self.check()
        return self.clock() < until

    def _ready(self, problem: Problem, candidates: Sequence[Config], until: float) -> Iterator[Config]:
        """Candidates in their order, but those first whose kernels are compiled."""
        left = list(candidates)
        while left:
            texts = [key(config) for config in left]
            try:
                done = self._ask(problem, "compiled", cell=problem.cells[0].row(), configs=texts)["done"]
            except PeerError:
                done = {}
            ready = [config for config in left if done.get(key(config), True)]
            if not ready:
                if not self._may_go_on(until):
                    return
                time.sleep(_POLL_S)
                continue
            left.remove(ready[0])
            yield ready[0]

    def _prepare_neighbours(self, problem: Problem, best: Config) -> list[Config]:
        cell = problem.cells[0].row()
        try:
            said = self._ask(problem, "neighbours", cell=cell, config=key(best))
            texts = [str(text) for text in said["candidates"][: max(1, self.limit // 2)]]
            self._compile(problem, texts, urgent=True)
        except PeerError as error:
            self.note(f"no second pass for {problem.label}: {error}")
            return []
        return [_config(text) for text in texts]

    def _compile(self, problem: Problem, texts: Sequence[str], *, urgent: bool) -> None:
        cell = problem.cells[0].row()
        fields = {"cell": cell, "configs": texts, "urgent": urgent, "at_a_time": self._at_a_time}
        self._ask(problem, "compile", **fields)

    def _trial(self, problem: Problem, config: Config, samples: int, drawn: Drawn) -> Mapping[str, Outcome]:
        """A worker's word on a configuration; a worker that it brings down is replaced."""
        try:
            said = self._ask(problem, "trial", config=key(config), samples=samples)["outcomes"]
        except PeerError as error:
            said = {problem.cells[0].cell_id: {"reason_code": error.reason_code, "detail": str(error.detail)}}
            if error.fatal:
                self._enter(problem, drawn)
        outcomes = {str(cell_id): _outcome(verdict) for cell_id, verdict in said.items()}
        if any(outcome.reason_code == "illegal-memory" for outcome in outcomes.values()):
            self._retire(problem)
            self._enter(problem, drawn)
        return outcomes

    def _enter(self, problem: Problem, drawn: Drawn) -> None:
        """Have the problem's inputs in the worker.

        Raises:
            PeerError: it has no worker any more, or it fails at it.
            RefusedError: it received other inputs than were drawn.
        """
        name, cell = problem.contestant, problem.cells[0]
        folder = drawn.weights[weights_of(cell)]["folder"]
        if not self.crew.ready([name], folder, cell.precision):
            _, failure = self.crew.missing[name]
            raise failure
        cells = [{"folder": drawn.cells[c.cell_id]["folder"], "cell": c.row()} for c in problem.cells]
        said = self._ask(problem, "enter", cells=cells, tolerance=self.tolerance(cell.precision))
        for cell_id, sha256 in said["inputs_sha256"].items():
            if sha256 != drawn.cells[cell_id]["inputs_sha256"]:
                raise RefusedError(
                    f"'{name}' received other inputs in {cell_id} than were drawn; nothing that it would "
                    "measure could be compared. Look for a worker that changes what it loads."
                )

    def _leave(self, problem: Problem) -> Outcome | None:
        """Forget the inputs; returns a refusal where one of the trials wrote into them."""
        spoiled = self._ask(problem, "leave")["outcomes"]
        return _outcome(next(iter(spoiled.values()))) if spoiled else None

    def _save(self, problem: Problem, chosen: Config) -> None:
        """Write tables.

        Raises:
            RefusedError: they cannot be written, so nothing further is searched for them.
        """
        try:
            self._write_tables(problem, chosen)
        except PeerError as error:
            sentence = f"The table of {problem.contestant} cannot be written to {self.out} ({error.detail})."
            raise RefusedError(sentence) from error

    def _write_tables(self, problem: Problem, chosen: Config) -> None:
        folder = (self.out / problem.contestant).resolve()
        pair = {"cell": problem.cells[0].row(), "config": key(chosen)}
        self._ask(problem, "tables", folder=str(folder), chosen=[pair])

    def _retire(self, problem: Problem) -> None:
        why = PeerError("worker-died", "replaced after an illegal access", fatal=True)
        self.crew.retire(problem.contestant, why)

    def _refuse(self, problem: Problem, error: PeerError) -> None:
        self.refused[problem] = error
        self.note(f"not tuned: {problem.label}, {error}")

    def _ask(self, problem: Problem, op: str, **fields: Any) -> Reply:
        name = problem.contestant
        if not self.crew.has(name):
            raise self.crew.missing[name][1]
        answer = self.crew.ask(op, {name: fields})[name]
        if isinstance(answer, PeerError):
            raise answer
        return answer


def _interleaved(tasks: Sequence[Task]) -> Iterator[tuple[Task, bool]]:
    """(task, whether it is its first step): everybody's first step of a problem, then their second of the one before."""
    rounds: dict[tuple[Any, ...], list[Task]] = {}
    for task in tasks:
        cell = task.problem.cells[0]
        rounds.setdefault((cell.workload, cell.precision, cell.tokens), []).append(task)
    before: list[Task] = []
    for each in [*rounds.values(), []]:
        yield from ((task, True) for task in each)
        yield from ((task, False) for task in before)
        before = each


def _config(text: str) -> Config:
    found: Config = json.loads(text)
    return found


def _outcome(verdict: Mapping[str, Any]) -> Outcome:
    code = verdict.get("reason_code")
    if code is None:
        return Outcome(tuple(float(t) for t in verdict["times_us"]), verdict.get("relative_error"))
    code = code if code in REASONS else "crashed"
    return Outcome((), None, code, REASONS[code].fault, str(verdict.get("detail") or "no detail"))
