"""`python -m producers.serve`: serve engines under one common client and append what they did to the lake.

Exit codes: 0 every point is measured; 1 the lake or the warehouse cannot be read or written; 2 an option, the
model's folder or the policy is wrong; 3 a point was refused; 4 stopped by the budget or a signal, or engines
are left (`--resume` goes on); 5 refused (another run, a busy card, changed conditions, memory not freed).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from checks.policy import Policy, load_policy
from producers.budget import Budget
from producers.ending import ended
from producers.environment import Environment, detect, refuse_busy
from producers.errors import COMPLETE, INCOMPLETE, RefusedError, StoppedError, UsageError
from producers.locks import DeviceLock
from producers.progress import Progress
from producers.resume import RunState, check_unchanged, has_policy
from producers.scratch import Scratch
from producers.serve import options as command_line
from producers.serve.clients import Clients
from producers.serve.engines import Served, has_weights
from producers.serve.options import Options
from producers.serve.plan import Plan, check_same, from_json
from producers.serve.prompts import read_vocabulary
from producers.serve.recorder import ServeRecorder
from producers.serve.session import Place, Session
from producers.serve.state import PRODUCER, ServeState, find
from producers.serve.witness import witness
from warehouse.errors import WarehouseError
from warehouse.ids import new_run_id

_STOPPED = 4
_MOST_POINTS = 10_000  # of an engine
_MOST_TOKENS = 10**8  # of the prompts of a point, all of which are held


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return ended(
        "serve", lambda: _serve(command_line.parse(arguments, (__doc__ or "").split("\n", maxsplit=1)[0]))
    )


def _serve(options: Options) -> int:
    if sys.platform != "linux":
        raise RefusedError("Servers are kept by means that only Linux has; serve on a Linux machine.")
    if options.model is None:
        raise UsageError("--model names the folder that is served; docs/serving.md says how to make one.")
    environment = detect(options.device_index)
    policy = load_policy()
    state = find(options.lake, options.resume) if options.resume else ServeState(new_run_id())
    if state.events:
        check_unchanged(RunState(state.run_id, state.events), environment, policy.sha256)
    plan = _plan(options, state, cuda=environment.device.is_cuda)
    vocabulary = read_vocabulary(options.model)
    config_sha256 = hashlib.sha256((options.model / "config.json").read_bytes()).hexdigest()
    if state.configs - {config_sha256}:
        raise RefusedError(
            f"{options.model / 'config.json'} is not what serve run '{state.run_id}' was measured with; "
            "restore it, or start a run without --resume."
        )
    if not options.no_build:
        from warehouse.build import refuse_locked  # noqa: PLC0415 - a machine that only measures lacks DuckDB

        refuse_locked(options.db)
    budget = Budget(options.budget_minutes, None, options.rate_usd_per_h)
    with (
        DeviceLock(environment.device.device_uuid),
        Scratch(environment.device) as scratch,
        Progress() as progress,
    ):
        if not options.busy_ok:
            refuse_busy(environment)
        budget.watch_signals()
        place = Place(
            model=Served(str(options.model.resolve()), plan.model, not has_weights(str(options.model))),
            config_sha256=config_sha256,
            vocabulary=vocabulary,
            interpreters=options.interpreters,
            import_paths=options.import_paths,
            logs=_logs(options.logs / state.run_id),
            work=scratch.folder,
            health_timeout_s=options.health_timeout_s,
            request_timeout_s=options.request_timeout_s,
            point_timeout_s=options.point_timeout_s,
            stop_timeout_s=options.stop_timeout_s,
        )
        recorder = ServeRecorder(options.lake, state.run_id, state.next_event, PRODUCER)
        recorder.invocation = state.next_event
        client = options.interpreters.get("client")
        paths = options.import_paths.get("client", _client_folder() if client is None else ())
        session = Session(
            plan,
            place,
            environment,
            recorder,
            budget,
            Clients(
                lambda: scratch.client(client, paths, budget.check_signal),
                min(options.client_processes, max(plan.concurrency)),
            ),
            progress.note,
        )
        progress.note(f"serve run {state.run_id}, lake {options.lake}, logs {place.logs}")
        for damaged in state.damaged:
            progress.note(f"damaged, and what it held is measured again: {damaged}")
        with witness(session.epitaph()):
            left = _run(session, options, state, environment, policy)
    if not options.no_build:
        _build(options)
    if session.refused:
        sys.stderr.write(
            f"serve: {len(session.refused)} points were refused; queries/serving.sql names them.\n"
        )
        return INCOMPLETE
    if left:
        sys.stderr.write(f"serve: {', '.join(left)} left; go on with --resume.\n")
        return _STOPPED
    return COMPLETE


def _run(
    session: Session, options: Options, state: ServeState, environment: Environment, policy: Policy
) -> list[str]:
    """Serve, between the events that the lake keeps; returns the engines of the plan that were not served."""
    plan, recorder = session.plan, session.recorder
    asked = options.only or plan.engines
    if not has_policy(options.lake, policy.sha256):
        recorder.policy(policy.sha256, policy.text)

    def event(name: str, detail: str | None = None, plan_json: str | None = None) -> None:
        recorder.event(name, environment, policy.sha256, seed=plan.seed, plan_json=plan_json, detail=detail)

    event("resumed" if state.events else "started", plan_json=plan.to_json())
    try:
        session.run([options.engines[name] for name in asked], state.done)
    except StoppedError as stop:
        event("stopped", str(stop))
        raise
    except WarehouseError:
        raise  # the lake cannot take an event either
    except BaseException as error:
        event("interrupted", str(error) or type(error).__name__)
        raise
    finally:
        if options.rate_usd_per_h is not None:
            recorder.cost(session.budget.elapsed_s, options.rate_usd_per_h, recorder.invocation)
    left = [n for n in plan.engines if n not in asked and not state.done.issuperset(plan.points(n))]
    event("stopped" if left else "finished", f"left: {', '.join(left)}" if left else None)
    return left


def _plan(options: Options, state: ServeState, *, cuda: bool) -> Plan:
    """The plan of the run: that of its start, or the options over the defaults of the device."""
    given = {{"model_name": "model"}.get(name, name): value for name, value in options.plan.items()}
    if state.events:
        plan = from_json(state.asked)
        check_same(plan, given, state.run_id)
    else:
        assert options.model is not None  # noqa: S101 - _serve() looked
        defaults: dict[str, Any] = {
            "engines": ("vllm", "sglang") if cuda else ("transformers",),
            "model": options.model.resolve().name,
            "weights": None if has_weights(str(options.model)) else "dummy",
            "concurrency": (1, 4, 16, 64) if cuda else (1, 2),
            "repeats": 3,
            "requests": None,
            "input_tokens": 128 if cuda else 32,
            "output_tokens": 128 if cuda else 16,
            "request_rate": None,
            "seed": 0,
        }
        plan = Plan(**(defaults | given))
    for name in options.only or ():
        if name not in plan.engines:
            raise UsageError(f"'{name}' is none of the run's engines: {', '.join(plan.engines)}.")
    for name in plan.engines:
        if name not in options.engines:
            raise UsageError(f"The run serves '{name}' too; give its --server again.")
    for name in (*options.servers, *options.plan.get("arguments", ())):
        if name not in plan.engines:
            raise UsageError(
                f"An option is for '{name}', which the run does not serve; --engines is {','.join(plan.engines)}."
            )
    if plan.repeats * len(plan.concurrency) > _MOST_POINTS:
        raise UsageError(f"'--repeats' is {plan.repeats}; {_MOST_POINTS} points of an engine are the most.")
    most = max(map(plan.requests_of, plan.concurrency)) * plan.input_tokens
    if most > _MOST_TOKENS:
        raise UsageError(
            f"A point would send {most} tokens; {_MOST_TOKENS} fit, so lower --requests, --concurrency or "
            "--input-tokens."
        )
    return plan


def _client_folder() -> tuple[str, ...]:
    """Where `make` puts the client's packages: beside this environment's own, whose versions they may not share."""
    folder = Path(sys.prefix) / "serve-client"
    return (str(folder),) if folder.is_dir() else ()


def _logs(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot make the folder of logs {folder}: {error.strerror}; see --logs.") from error
    return folder.resolve()


def _build(options: Options) -> None:
    from warehouse.build import build  # noqa: PLC0415 - see _serve
    from warehouse.options import default_lakes  # noqa: PLC0415

    build([options.lake] if options.lake_named else list(default_lakes(Path())), options.db)
    Console(soft_wrap=True).print(
        f"{options.db.resolve()}\nduckdb -readonly {options.db} < queries/serving.sql"
    )


if __name__ == "__main__":
    sys.exit(main())
