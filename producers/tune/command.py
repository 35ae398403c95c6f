"""The command ``python -m producers.tune``: options, and one tuning run from start to end.

Exit codes: 0 a configuration is chosen for every problem; 1 the lake cannot be written; 2 an option or the
policy is wrong; 3 a problem was not tuned; 4 stopped by a signal (`--resume` goes on); 5 refused (another
run, a busy card, changed conditions, inputs that differ).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.policy import Policy, load_policy
from producers import config, resume
from producers.budget import Budget
from producers.contestants import registry
from producers.crew import Crew
from producers.drawing import draw
from producers.ending import ended
from producers.environment import Environment, detect, refuse_busy
from producers.errors import (
    COMPLETE,
    INCOMPLETE,
    PeerError,
    RefusedError,
    StoppedError,
    UsageError,
)
from producers.locks import DeviceLock
from producers.plan import Entrant, Plan, make_plan
from producers.process import Reply
from producers.progress import Progress
from producers.recorder import Recorder
from producers.resume import RunState
from producers.scratch import Scratch
from producers.tune.record import Journal, problems_of
from producers.tune.session import Tuning
from producers.workloads import WORKLOADS
from warehouse.errors import WarehouseError
from warehouse.ids import new_run_id
from warehouse.lake import scan

_TIMEOUT_S = 600.0
_BUDGET_S = 300.0
_CANDIDATES = 24
# A search tries what nobody ran before: more of it brings a process down than in a race.
_RESTARTS = 20
_OPTIONS = (
    "workload", "precision", "routing", "tokens", "cells", "seed", "interpreter", "import-path", "lake",
    "device-index", "busy-ok", "keep-scratch", "worker-timeout",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m producers.tune",
        description="find configurations for contestants, and write them as tables and into the lake",
    )
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="whose (default: dispatch)")
    parser.add_argument(
        "--budget-seconds", type=float, default=_BUDGET_S, metavar="N",
        help="time for everything that is timed, shared equally (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--candidates", type=int, default=_CANDIDATES, metavar="N",
        help="most configurations of a first pass (default: %(default)d)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("tuned"), help="folder of the tables (default: tuned)"
    )
    parser.add_argument(
        "--resume", nargs="?", const=resume.NEWEST, metavar="RUN_ID",
        help="go on with a run (default: the newest unfinished one)",
    )  # fmt: skip
    config.add_arguments(parser, _OPTIONS)
    options = parser.parse_args(arguments)

    def work() -> int:
        if options.budget_seconds <= 0 or options.candidates < 1:
            raise UsageError("--budget-seconds and --candidates have to be over 0.")
        return _tune(options, config.read_arguments(options))

    return ended("tune", work)


def _tune(options: argparse.Namespace, given: dict[str, Any]) -> int:
    environment, policy = detect(given.get("device-index")), load_policy()
    lake = Path(given.get("lake", "lake"))
    asked = {name: value for name, value in given.items() if name in config.PLAN_OPTIONS}
    if options.contestants:
        asked["contestant"] = tuple(options.contestants)
    state = None
    if options.resume is not None:
        state = resume.find(lake, options.resume, "tune")
        resume.check_asked(state, asked)
        resume.check_unchanged(state, environment, policy.sha256)
        asked = state.asked
    asked = {"contestant": ("dispatch",), **asked}
    plan = make_plan(
        asked,
        device=environment.device.device,
        cuda=environment.device.is_cuda,
        policy=policy,
        registry=registry(),
        workloads=WORKLOADS,
        interpreters=given.get("interpreter"),
        import_paths=given.get("import-path"),
    )
    # A plan also enters the control of a race, which has nothing to be tuned.
    plan = replace(plan, entrants=tuple(e for e in plan.entrants if e.name in asked["contestant"]))
    budget = Budget()
    with (
        Scratch(environment.device, keep=given.get("keep-scratch", False)) as scratch,
        DeviceLock(environment.device.device_uuid),
        Progress() as progress,
    ):
        if not given.get("busy-ok"):
            refuse_busy(environment)
        budget.watch_signals()
        state = state or RunState(new_run_id())
        recorder = Recorder(lake, state.run_id, state.next_event, "tune")
        progress.note(f"tune {state.run_id} on {environment.device.device}, lake {lake}")

        def event(name: str, detail: str | None = None) -> None:
            asked_json = json.dumps(plan.asked, sort_keys=True) if name == "started" else None
            recorder.event(
                name, environment, policy.sha256, seed=plan.seed, plan_json=asked_json, detail=detail
            )

        if state.next_event == 0 and not resume.has_policy(lake, policy.sha256):
            recorder.policy(policy.sha256, policy.text)
        event("resumed" if state.next_event else "started")
        try:
            left = _search(options, given, plan, environment, policy, recorder, scratch, budget, progress)
            event("finished")
        except StoppedError as stop:
            event("stopped", str(stop))
            raise
        except WarehouseError:
            raise  # the lake cannot take an event either
        except BaseException as error:
            event("interrupted", str(error) or type(error).__name__)
            raise
    for sentence in left:
        sys.stderr.write(f"tune: {sentence}\n")
    return INCOMPLETE if left else COMPLETE


def _search(
    options: argparse.Namespace,
    given: dict[str, Any],
    plan: Plan,
    environment: Environment,
    policy: Policy,
    recorder: Recorder,
    scratch: Scratch,
    budget: Budget,
    progress: Progress,
) -> list[str]:
    """Everything between the run's first event and its last; returns what was not tuned."""
    timeout_s = given.get("worker-timeout", _TIMEOUT_S)
    known = resume.rows_of(scan(recorder.lake), "tuning", recorder.run_id)
    versions: dict[str, Reply] = {}

    def greeted(entrant: Entrant, hello: Reply) -> None:
        check_greeting(entrant, hello, environment, known)
        versions[entrant.name] = hello

    crew = Crew(
        {entrant.name: entrant for entrant in plan.entrants},
        lambda entrant: scratch.tuner(entrant, budget.check_signal),
        timeout_s,
        greeted,
        _RESTARTS,
    )
    mode = "graph" if environment.device.is_cuda else "eager"
    tuning = Tuning(
        crew=crew,
        journal=Journal(recorder.lake, recorder.run_id, mode, versions, known),
        tolerance=policy.tolerance,
        limit=options.candidates,
        budget_s=options.budget_seconds,
        check=budget.check_signal,
        note=progress.note,
        out=options.out,
    )
    gently = False
    try:
        crew.start(entrant.name for entrant in plan.entrants)
        # Side by side for all contestants, problem by problem: their compilers work in that order.
        by_contestant = [problems_of(entrant.name, plan.cells) for entrant in plan.entrants]
        tuning.plan([problem for group in zip(*by_contestant, strict=True) for problem in group])
        wanted = {cell for task in tuning.tasks for cell in task.problem.cells}
        drawn = draw(
            [cell for cell in plan.cells if cell in wanted],
            lambda: scratch.referee(budget.check_signal),
            scratch.inputs,
            seed=plan.seed,
            timeout_s=timeout_s,
            note=progress.note,
        )
        tuning.run(drawn)
        gently = True
    finally:
        crew.close(gently=gently)
    return [f"{problem.label}: {error}" for problem, error in tuning.refused.items()]


def check_greeting(
    entrant: Entrant, hello: Reply, environment: Environment, known: Sequence[dict[str, Any]]
) -> None:
    """Refuse a worker on another card, or another program than the one that the run began with.

    Raises:
        PeerError, RefusedError: in that order.
    """
    device = environment.device
    uuid = str(hello.get("device_uuid"))
    if device.is_cuda and uuid.removeprefix("GPU-") != device.device_uuid.removeprefix("GPU-"):
        seen = hello.get("device") or "no CUDA device"
        detail = f"the worker sees {seen}, not the card of the run (is its torch a CUDA build?)"
        raise PeerError("worker-did-not-start", detail, fatal=True)
    for row in known:
        for column in ("package_version", "triton_version"):
            if row["contestant"] == entrant.name and row[column] != hello.get(column):
                raise RefusedError(
                    f"The run cannot go on: {column} of '{entrant.name}' was {row[column] or 'unknown'} and is "
                    f"{hello.get(column) or 'unknown'}. Give it the interpreter and import paths of before, or "
                    "start anew."
                )
