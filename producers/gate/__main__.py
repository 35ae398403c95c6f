"""`python -m producers.gate`: every next-token decision of a model on our kernels beside the stock model's.

Exit codes: 0 every configuration was measured; 1 the lake or the warehouse cannot be read or written; 2 an
option or the policy is wrong; 3 a configuration was refused or is void, or the control is not clean; 4 stopped
by a signal (`--resume` goes on); 5 refused (another run on the device, a busy card, changed conditions, no stock
model to compare with). Whether what was measured is good enough is for `checks run` to say.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from checks.policy import Policy, load_policy
from producers import resume
from producers.asked import names, refuse_unloadable, refuse_unreadable, seconds, whole_seed
from producers.budget import Budget
from producers.ending import ended
from producers.environment import Environment, detect, refuse_busy
from producers.errors import COMPLETE, INCOMPLETE, UsageError
from producers.gate import state as states
from producers.gate.coordinator import Gate
from producers.gate.lane import Lane
from producers.gate.plan import CONFIGS, DEFAULT_CONTEXT, DEFAULT_MODEL, GatePlan, make_plan
from producers.gate.recorder import GateRecorder
from producers.gate.state import GateState
from producers.gate.summary import print_plan, print_results
from producers.locks import DeviceLock
from producers.progress import Progress
from producers.resume import RunState
from producers.scratch import Scratch
from warehouse.ids import new_run_id

_DEFAULT_TIMEOUT_S = 3600.0
# Windows of one pass. On a GPU two: each holds logits of 1036 x 102400 numbers, several times over.
_BATCH = {True: 2, False: 1}
_CPU_WORKERS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    return ended("gate", lambda: _gate(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m producers.gate",
        description=(__doc__ or "").split("\n", maxsplit=1)[0],
    )
    plan = parser.add_argument_group("what is compared (stored with the run)")
    plan.add_argument(
        "--model", metavar="NAME", help=f"a model, or a checkpoint's folder (default: {DEFAULT_MODEL})"
    )
    plan.add_argument(
        "--config",
        action="append",
        metavar="NAME",
        help=f"comma list of {', '.join(CONFIGS)} (default: those that the policy requires)",
    )
    plan.add_argument(
        "--positions", type=int, metavar="N", help="at least so many (default: the policy's least)"
    )
    plan.add_argument(
        "--context", type=int, metavar="N", help=f"tokens of a window (default: {DEFAULT_CONTEXT})"
    )
    plan.add_argument(
        "--text", type=Path, metavar="FILE", help="UTF-8 text (default: Python's own documentation)"
    )
    plan.add_argument("--seed", type=int, metavar="N", help="of seeded weights (default: 0)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto")
    parser.add_argument("--device-index", type=int, metavar="N", help="card, in nvidia-smi's order")
    parser.add_argument("--batch", type=int, metavar="N", help="windows of one pass (default: 2, on a CPU 1)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: 1, on a CPU 2)")
    parser.add_argument(
        "--worker-timeout", type=float, metavar="S", default=_DEFAULT_TIMEOUT_S, help="for one answer"
    )
    parser.add_argument("--lake", type=Path, metavar="DIR", help="where rows are appended (default: lake)")
    parser.add_argument("--db", type=Path, default=Path("warehouse.db"), metavar="FILE", help="the warehouse")
    parser.add_argument("--no-build", action="store_true", help="do not build the warehouse at the end")
    parser.add_argument("--busy-ok", action="store_true", help="run although the card is in use")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and start nothing")
    parser.add_argument(
        "--resume",
        nargs="?",
        const=resume.NEWEST,
        metavar="RUN_ID",
        help="go on with a run (default: the newest unfinished one)",
    )
    return parser


def _gate(options: argparse.Namespace) -> int:
    if options.model is not None and (os.sep in options.model or Path(options.model).is_dir()):
        options.model = str(Path(options.model).expanduser().resolve())
    for name in ("batch", "workers"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UsageError(f"--{name} is {getattr(options, name)}; the least is 1.")
    seconds("worker-timeout", options.worker_timeout)
    environment = _environment(options)
    policy = load_policy()
    lake = options.lake or Path("lake")
    state, stored = None, {}
    if options.resume is not None:
        state = states.find(lake, options.resume)
        resume.check_unchanged(state.run, environment, policy.sha256)
        stored = state.run.asked
    plan = _plan({**stored, **_given(options)}, options, policy)
    if state is not None:
        resume.check_asked(state.run, plan.asked)
    refuse_unloadable(plan.model)
    refuse_unreadable(plan.text)
    if options.dry_run:
        print_plan(plan, environment.device.device, Console(soft_wrap=True))
        return COMPLETE
    if not options.no_build:
        from warehouse.build import refuse_locked  # noqa: PLC0415 - see _conclude

        refuse_locked(options.db)
    state = state or GateState(RunState(new_run_id()))
    _run(plan, options, environment, policy, lake, state)
    return _conclude(plan, options, policy, lake, state.run.run_id)


def _environment(options: argparse.Namespace) -> Environment:
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    environment = detect(options.device_index)
    if options.device == "cuda" and not environment.device.is_cuda:
        raise UsageError(
            "There is no CUDA device that this process may use; leave --device out, or see nvidia-smi."
        )
    return environment


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The plan options that were given."""
    given = {
        "model": options.model,
        "config": names("config", options.config) or None,
        "positions": options.positions,
        "context": options.context,
        "text": None if options.text is None else str(options.text),
        "seed": options.seed,
    }
    return {name: value for name, value in given.items() if value is not None}


def _plan(asked: dict[str, Any], options: argparse.Namespace, policy: Policy) -> GatePlan:
    if asked.get("text") is not None and options.text is None:
        raise UsageError(f"The run reads the text {asked['text']}; name it with --text.")
    if asked.get("checkpoint") and options.model is None:
        raise UsageError(f"The run's model is the checkpoint {asked['model']}; name its folder with --model.")
    return make_plan(
        model=asked.get("model", DEFAULT_MODEL) if options.model is None else options.model,
        configs=asked.get("config") or policy.by_path["gate", "required"],
        positions=asked.get("positions"),
        context=asked.get("context", DEFAULT_CONTEXT),
        text=None if options.text is None else str(options.text.resolve()),
        seed=whole_seed(asked.get("seed", 0)),
        least_positions=int(policy.by_path["gate", "min_positions"]),
    )


def _run(
    plan: GatePlan,
    options: argparse.Namespace,
    environment: Environment,
    policy: Policy,
    lake: Path,
    state: GateState,
) -> None:
    device = environment.device
    budget = Budget()
    with Scratch(device) as scratch, DeviceLock(device.device_uuid), Progress() as progress:
        if not options.busy_ok:
            refuse_busy(environment)
        budget.watch_signals()
        recorder = GateRecorder(lake, state.run.run_id, state.run.next_event)
        progress.note(f"gate {recorder.run_id} on {device.device}, lake {lake}")
        for damaged in state.run.damaged:
            progress.note(f"damaged, and what it held is measured again: {damaged}")
        gate = Gate(plan, environment, policy, recorder, state, [], scratch.inputs, progress.note)

        def poll() -> None:
            budget.check()
            gate.check()

        model = {
            "model": plan.model,
            "seed": plan.seed,
            "text": plan.text,
            "windows": plan.windows,
            "context": plan.context,
            "batch": options.batch or _BATCH[device.is_cuda],
        }
        workers = options.workers or (1 if device.is_cuda else _CPU_WORKERS)
        for number in range(workers):
            start = partial(scratch.process, f"gate-{number}", "producers.gate.worker", poll)
            gate.lanes.append(Lane(start, model, options.worker_timeout))
        gate.run()


def _conclude(plan: GatePlan, options: argparse.Namespace, policy: Policy, lake: Path, run_id: str) -> int:
    """Build the warehouse, print what the policy says, and say whether every configuration was measured."""
    if not options.no_build:
        from warehouse.build import build  # noqa: PLC0415 - a machine that only measures need not have DuckDB
        from warehouse.options import default_lakes  # noqa: PLC0415

        build([options.lake] if options.lake else list(default_lakes(Path())), options.db)
        console = Console()
        print_results(options.db, run_id, console)
        console.print(f"{options.db.resolve()}\nThe gate: checks run --db {options.db}", soft_wrap=True)
    allowed = int(policy.by_path["gate", "control_disagreements"])
    lacking = states.shortcomings(lake, plan, run_id, allowed)
    if lacking:
        sys.stderr.write(f"gate: {'; '.join(lacking)}.\n")
        return INCOMPLETE
    return COMPLETE


if __name__ == "__main__":
    sys.exit(main())
