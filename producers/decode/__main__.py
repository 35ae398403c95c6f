"""`python -m producers.decode`: tokens a second at concurrency 1 inside a language model, into the lake.

Exit codes: 0 every configuration was timed; 1 the lake or the warehouse cannot be read or written; 2 an option,
the model or the policy is wrong; 3 a configuration was refused; 4 stopped by a signal (what was timed is kept;
start a new run); 5 refused (another run on the device, a busy card, a stock model that cannot decode).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from checks.policy import Policy, PolicyError, load_policy
from producers import resume
from producers.asked import names, refuse_unloadable, whole_seed
from producers.budget import Budget
from producers.decode.plan import CONFIGS, DEFAULT_MODEL, DecodePlan, make_plan
from producers.decode.recorder import DecodeRecorder
from producers.decode.summary import print_plan, print_rates
from producers.ending import ended
from producers.environment import Environment, detect, refuse_busy
from producers.errors import COMPLETE, INCOMPLETE, RefusedError, StoppedError, UsageError
from producers.locks import DeviceLock
from producers.progress import Progress
from warehouse.errors import WarehouseError
from warehouse.ids import new_run_id

if TYPE_CHECKING:
    from producers.decode.session import Session
    from producers.models import LoadedModel

# On a CPU each step takes seconds under Triton's interpreter, and only the machinery is shown.
_PROMPT_TOKENS = {True: 128, False: 2}
_STEPS = {True: 128, False: 2}
_REPEATS = {True: 8, False: 3}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    return ended("decode", lambda: _decode(options), kept="the lake keeps what was timed.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m producers.decode",
        description=(__doc__ or "").split("\n", maxsplit=1)[0],
    )
    plan = parser.add_argument_group("what is timed (stored with the run)")
    plan.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="NAME",
        help=f"a model, or a checkpoint's folder (default: {DEFAULT_MODEL})",
    )
    plan.add_argument(
        "--config",
        action="append",
        metavar="NAME",
        help=f"comma list of {', '.join(CONFIGS)} (default: those that the policy requires)",
    )
    plan.add_argument("--prompt-tokens", type=int, metavar="N", help="default: 128, on a CPU 2")
    plan.add_argument(
        "--steps", type=int, metavar="N", help="timed steps of a repeat (default: 128, on a CPU 2)"
    )
    plan.add_argument("--repeats", type=int, metavar="N", help="default: 8, on a CPU 3")
    plan.add_argument("--seed", type=int, default=0, metavar="N", help="of seeded weights and of the order")
    parser.add_argument(
        "--budget-minutes",
        type=float,
        metavar="M",
        help="begin no repeat that may end later, once the policy's least number is timed",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto")
    parser.add_argument("--device-index", type=int, metavar="N", help="card, in nvidia-smi's order")
    parser.add_argument("--lake", type=Path, metavar="DIR", help="where rows are appended (default: lake)")
    parser.add_argument("--db", type=Path, default=Path("warehouse.db"), metavar="FILE", help="the warehouse")
    parser.add_argument("--no-build", action="store_true", help="do not build the warehouse at the end")
    parser.add_argument("--busy-ok", action="store_true", help="run although the card is in use")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and start nothing")
    return parser


def _decode(options: argparse.Namespace) -> int:
    environment = _environment(options)
    policy = load_policy()
    plan = _plan(options, environment, policy)
    console = Console(soft_wrap=True)
    if options.dry_run:
        print_plan(plan, environment.device.device, console)
        return COMPLETE
    if not options.no_build:
        from warehouse.build import refuse_locked  # noqa: PLC0415 - see _conclude

        refuse_locked(options.db)
    if options.budget_minutes is not None and not options.budget_minutes > 0:
        raise UsageError(f"--budget-minutes is {options.budget_minutes:g}; it must be over 0.")
    budget = Budget(options.budget_minutes)
    with DeviceLock(environment.device.device_uuid), Progress() as progress:
        if not options.busy_ok:
            refuse_busy(environment)
        budget.watch_signals()
        refused, session = _run(plan, options, environment, policy, budget, progress)
    print_rates(
        {name: timed.rates for name, timed in session.timed.items()},
        {name: timed.weight_bytes for name, timed in session.timed.items()},
        console,
    )
    _conclude(options, console)
    if refused:
        sys.stderr.write(f"decode: refused: {', '.join(refused)}; the lake has the reasons.\n")
        return INCOMPLETE
    return COMPLETE


def _environment(options: argparse.Namespace) -> Environment:
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    environment = detect(options.device_index)
    if options.device == "cuda" and not environment.device.is_cuda:
        raise UsageError(
            "There is no CUDA device that this process may use; leave --device out, or see nvidia-smi."
        )
    if environment.device.is_cuda and options.device_index is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = environment.device.device_uuid  # before torch is imported
    return environment


def _plan(options: argparse.Namespace, environment: Environment, policy: Policy) -> DecodePlan:
    device = environment.device
    refuse_unloadable(options.model)
    configs = names("config", options.config) or required(policy, device.device)
    cuda = device.is_cuda
    return make_plan(
        model=options.model,
        configs=configs,
        prompt_tokens=_PROMPT_TOKENS[cuda] if options.prompt_tokens is None else options.prompt_tokens,
        steps=_STEPS[cuda] if options.steps is None else options.steps,
        repeats=_REPEATS[cuda] if options.repeats is None else options.repeats,
        seed=whole_seed(options.seed),
    )


def required(policy: Policy, device: str) -> Sequence[str]:
    """The configurations that the policy requires on a device; those of 'default' where it is not named.

    Raises:
        PolicyError: it requires none.
    """
    for key in (device, "default"):
        if ("decode", "required", key) in policy.by_path:
            return tuple(policy.by_path["decode", "required", key])
    raise PolicyError(f"{policy.source}: 'decode.required.default' is missing; say what has to decode.")


def _run(
    plan: DecodePlan,
    options: argparse.Namespace,
    environment: Environment,
    policy: Policy,
    budget: Budget,
    progress: Progress,
) -> tuple[list[str], Session]:
    # Here, and not above: a dry run and a refusal need no torch, and the interpreter is chosen before Triton.
    from producers import device as device_facts  # noqa: PLC0415
    from producers.decode.session import Bounds, Session  # noqa: PLC0415
    from producers.failures import Failure  # noqa: PLC0415
    from producers.models import load_model  # noqa: PLC0415

    device = device_facts.pick()
    loaded = load_model(plan.model, device=device, dtype="bfloat16", seed=plan.seed)
    ids = _prompt(loaded, plan)
    recorder = DecodeRecorder(options.lake or Path("lake"), new_run_id(), _subject(loaded, ids))
    progress.note(f"decode {recorder.run_id} on {environment.device.device}, lake {recorder.lake}")

    def event(name: str, **columns: Any) -> None:
        recorder.event(name, environment, policy.sha256, seed=plan.seed, **columns)

    if not resume.has_policy(recorder.lake, policy.sha256):
        recorder.policy(policy.sha256, policy.text)
    event("started", plan_json=json.dumps(plan.asked, sort_keys=True))
    shares = {
        path[2]: value
        for path, value in policy.by_path.items()
        if path[:2] == ("gate", "max_large_gap_share")
    }
    bounds = Bounds(float(policy.by_path["gate", "large_gap_logits"]), shares)
    session = Session(
        plan,
        loaded.model,
        ids,
        bounds,
        recorder,
        budget.check_signal,
        progress.note,
        least_repeats=int(policy.by_path["decode", "min_repeats"]),
        left_s=budget.left_s,
    )
    try:
        refused = session.run()
        event("finished")
    except StoppedError as stop:
        event("stopped", detail=str(stop))
        raise StoppedError(
            f"{stop} The lake keeps what was timed; a complete figure needs a new run."
        ) from stop
    except Failure as failure:
        event("finished", detail=failure.detail)
        raise RefusedError(f"The stock model cannot decode here ({failure}); nothing was timed.") from failure
    except WarehouseError:
        raise  # the lake cannot take an event either
    except BaseException as error:
        event("interrupted", detail=str(error) or type(error).__name__)
        raise
    return refused, session


def _prompt(loaded: LoadedModel, plan: DecodePlan) -> Any:
    """[1, P] int64 on the model's device: the beginning of Python's documentation.

    Raises:
        UsageError: the text is shorter, or prompt and steps are longer than the model's positions.
    """
    import torch  # noqa: PLC0415 - see _run

    from producers.decode.plan import WARM_UP_STEPS  # noqa: PLC0415
    from producers.models import python_documentation  # noqa: PLC0415

    ids = loaded.token_ids(python_documentation())
    if len(ids) < plan.prompt_tokens:
        raise UsageError(f"--prompt-tokens is {plan.prompt_tokens}, and the text has {len(ids)} tokens.")
    most = int(loaded.model.config.max_position_embeddings)
    whole = plan.prompt_tokens + 1 + WARM_UP_STEPS + plan.steps
    if whole > most:
        raise UsageError(
            f"Prompt and steps are {whole} tokens, and '{loaded.facts.name}' has positions for {most}: "
            "give a smaller --prompt-tokens or --steps."
        )
    return torch.tensor([ids[: plan.prompt_tokens]], device=loaded.model.device)


def _subject(loaded: LoadedModel, ids: Any) -> dict[str, Any]:
    """Columns that every configuration's row has."""
    from producers.device import version_of  # noqa: PLC0415 - see _run
    from producers.models.loaded import sha256_of_json  # noqa: PLC0415
    from producers.models.texts import tokens_sha256  # noqa: PLC0415

    facts = loaded.facts
    return {
        "model": facts.name,
        "weights": facts.weights,
        "tokenizer": facts.tokenizer,
        "model_sha256": sha256_of_json(asdict(facts)),
        "prompt_tokens": ids.shape[1],
        "prompt_sha256": tokens_sha256(ids.flatten().tolist()),
        **{f"{package}_version": version_of(package) for package in ("torch", "triton", "transformers")},
    }


def _conclude(options: argparse.Namespace, console: Console) -> None:
    if options.no_build:
        return
    from warehouse.build import build  # noqa: PLC0415 - a machine that only measures need not have DuckDB
    from warehouse.options import default_lakes  # noqa: PLC0415

    build([options.lake] if options.lake else list(default_lakes(Path())), options.db)
    console.print(f"{options.db.resolve()}\nduckdb -readonly {options.db} < queries/decode.sql")


if __name__ == "__main__":
    sys.exit(main())
