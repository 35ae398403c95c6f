"""`python -m producers.race`: race kernels and append what they measured to the lake.

Exit codes: 0 every cell is complete; 1 the lake or the warehouse cannot be read or written; 2 an option,
the configuration or the policy is wrong; 3 a cell stayed incomplete; 4 stopped by the budget or a signal
(`--resume` goes on); 5 refused (another race, a busy card, changed conditions, inputs that differ).
"""

from __future__ import annotations

# argparse and not typer, because `--resume` takes an optional value and the options come from one table.
import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from checks.policy import Policy, load_policy
from producers import baseline, config, resume, summary
from producers.budget import Budget
from producers.contestants import registry
from producers.coordinator import DEFAULT_TIMEOUT_S, Race
from producers.ending import ended
from producers.environment import ROOT, Environment, detect, refuse_busy
from producers.errors import COMPLETE, INCOMPLETE, UsageError
from producers.locks import DeviceLock
from producers.plan import Plan, make_plan
from producers.progress import Progress
from producers.recorder import Recorder
from producers.resume import RunState
from producers.scratch import Scratch
from producers.workloads import WORKLOADS
from warehouse.ids import new_run_id

_SHOWN_INCOMPLETE = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m producers.race", description=__doc__.split("\n")[0]
    )
    config.add_arguments(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML with the same options")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and start nothing")
    parser.add_argument(
        "--resume",
        nargs="?",
        const=resume.NEWEST,
        metavar="RUN_ID",
        help="go on with a run (default: the newest unfinished one)",
    )
    namespace = parser.parse_args(arguments)

    def work() -> int:
        from_file = config.read_toml(namespace.config) if namespace.config else {}
        given = from_file | config.read_arguments(namespace)
        return _race(given, resume_id=namespace.resume, dry_run=namespace.dry_run)

    return ended("race", work)


def _race(given: dict[str, Any], *, resume_id: str | None, dry_run: bool) -> int:
    environment = detect(given.get("device-index"))
    policy = load_policy()
    lake = Path(given.get("lake", "lake"))
    asked = {name: value for name, value in given.items() if name in config.PLAN_OPTIONS}
    state = None
    if resume_id is not None:
        state = resume.find(lake, resume_id)
        resume.check_asked(state, asked)
        resume.check_unchanged(state, environment, policy.sha256)
        asked = state.asked
    budget = _budget(given)
    if not (dry_run or given.get("no-build")):
        from warehouse.build import refuse_locked  # noqa: PLC0415 - see _conclude

        refuse_locked(_warehouse(given))  # now, and not after hours of measuring
    with Scratch(environment.device, keep=given.get("keep-scratch", False)) as scratch:
        plan = _plan(asked, given, environment, policy, scratch)
        if dry_run:
            device = environment.device
            summary.print_plan(
                plan, device=device.device, cuda=device.is_cuda, console=Console(soft_wrap=True)
            )
            return COMPLETE
        with DeviceLock(environment.device.device_uuid), Progress() as progress:
            if not given.get("busy-ok"):
                refuse_busy(environment)
            budget.watch_signals()
            state = state or RunState(new_run_id())
            recorder = Recorder(lake, state.run_id, state.next_event)
            progress.note(f"race {state.run_id} on {environment.device.device}, lake {lake}")
            for damaged in state.damaged:
                progress.note(f"damaged, and what it held is measured again: {damaged}")
            _warn_few_rounds(plan, policy, progress)
            first_event = state.next_event
            race = Race(
                plan,
                environment,
                policy,
                recorder,
                state,
                scratch,
                budget,
                progress,
                given.get("worker-timeout", DEFAULT_TIMEOUT_S),
            )
            try:
                race.run()
            finally:
                _record_cost(recorder, budget, first_event)
                if given.get("keep-scratch"):
                    progress.note(f"inputs and logs are in {scratch.folder}")
    return _conclude(given, lake, state, plan)


def _plan(
    asked: dict[str, Any], given: dict[str, Any], environment: Environment, policy: Policy, scratch: Scratch
) -> Plan:
    revision = None
    if asked.get("baseline"):
        folder = scratch.folder / "baseline"
        revision = (baseline.extract(ROOT, asked["baseline"], folder), str(folder))
        # The commit and not its name: a branch may have moved on when the run is resumed.
        asked = {**asked, "baseline": revision[0]}
    return make_plan(
        asked,
        device=environment.device.device,
        cuda=environment.device.is_cuda,
        policy=policy,
        registry=registry(),
        workloads=WORKLOADS,
        interpreters=given.get("interpreter"),
        import_paths=given.get("import-path"),
        tables=given.get("tables"),
        baseline=revision,
    )


def _budget(given: dict[str, Any]) -> Budget:
    rate = given.get("rate-usd-per-h")
    if "budget-usd" in given and rate is None:
        raise UsageError("--budget-usd needs --rate-usd-per-h, what the machine costs.")
    return Budget(given.get("budget-minutes"), given.get("budget-usd"), rate)


def _warn_few_rounds(plan: Plan, policy: Policy, progress: Progress) -> None:
    if plan.rounds < policy.min_rounds or plan.sessions < policy.min_sessions:
        progress.note(
            f"note: {plan.rounds} rounds over {plan.sessions} sessions; the policy decides nothing under "
            f"{policy.min_rounds} over {policy.min_sessions}, so cells will be inconclusive"
        )


def _record_cost(recorder: Recorder, budget: Budget, first_event: int) -> None:
    if budget.usd_per_hour is not None:
        recorder.cost(budget.elapsed_s, budget.usd_per_hour, first_event)


def _warehouse(given: dict[str, Any]) -> Path:
    return Path(given.get("db", "warehouse.db"))


def _conclude(given: dict[str, Any], lake: Path, state: RunState, plan: Plan) -> int:
    """Build the warehouse, print the winners, and say whether every cell is complete."""
    lacking = resume.incomplete(state, plan)
    if not given.get("no-build"):
        from warehouse.build import build  # noqa: PLC0415 - a machine that only measures need not have DuckDB
        from warehouse.options import default_lakes  # noqa: PLC0415

        db = _warehouse(given)
        # Beside the recorded races, as `warehouse build` does it, unless another lake was named.
        build([lake] if "lake" in given else list(default_lakes(Path())), db)
        console = Console()
        summary.print_winners(summary.winners(db, state.run_id), state.run_id, console)
        console.print(f"{db.resolve()}\nThe report, behind the gate: checks report --db {db}", soft_wrap=True)
    if lacking:
        shown = "; ".join(lacking[:_SHOWN_INCOMPLETE])
        more = f"; and {len(lacking) - _SHOWN_INCOMPLETE} more" if len(lacking) > _SHOWN_INCOMPLETE else ""
        sys.stderr.write(f"race: {len(lacking)} cells lack a required rival: {shown}{more}.\n")
        return INCOMPLETE
    return COMPLETE


if __name__ == "__main__":
    sys.exit(main())
