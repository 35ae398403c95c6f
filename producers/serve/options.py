"""The options of ``python -m producers.serve``, read and checked; nothing of the machine is looked at yet."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.errors import UsageError
from producers.serve.engines import ENGINES, Engine, custom
from producers.serve.state import NEWEST

_LARGEST = 2**31 - 1
_MOST_CLIENTS, _CORES_A_CLIENT = 4, 4  # the server needs cores too
_MOST_ASKED_CLIENTS = 64  # each is a Python process with guidellm
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # it names a log file and stands in lists
WEIGHTS = ("trained", "dummy", "upcycled", "seeded")


@dataclass(frozen=True)
class Options:
    """What was asked for. ``plan`` holds what makes the run, by the names of :class:`producers.serve.plan.Plan`."""

    plan: dict[str, Any]
    engines: dict[str, Engine]  # known by name: built in, and of --server
    servers: tuple[str, ...]  # names of --server
    only: tuple[str, ...] | None
    model: Path | None
    interpreters: dict[str, str]
    import_paths: dict[str, tuple[str, ...]]
    lake: Path
    lake_named: bool
    db: Path
    logs: Path
    no_build: bool
    busy_ok: bool
    device_index: int | None
    resume: str | None
    budget_minutes: float | None
    rate_usd_per_h: float | None
    health_timeout_s: float
    request_timeout_s: float
    point_timeout_s: float
    stop_timeout_s: float
    client_processes: int


def parse(arguments: Sequence[str] | None, about: str) -> Options:
    """Read the command line.

    Raises:
        UsageError: a value is wrong.
        SystemExit: argparse's own, for an unknown option or ``--help``.
    """
    given = _parser(about).parse_args(arguments)
    servers = _pairs("server", given.server)
    engines = ENGINES | _custom(servers)
    plan: dict[str, Any] = {}
    for name, read in _PLAN.items():
        value = getattr(given, name)
        if value is not None:
            plan[name] = _value(name, read, value)
    if given.engine_arg:
        texts = _pairs("engine-arg", given.engine_arg)
        plan["arguments"] = {
            name: tuple(w for text in t for w in _words(name, text)) for name, t in texts.items()
        }
    only = None if given.only is None else _value("only", _names, given.only)
    if given.resume is not None and "engines" in plan:
        only = only or plan["engines"]  # a resumed run has its engines; these are those that are meant now
        del plan["engines"]
    for name in (*plan.get("engines", ()), *(only or ()), *plan.get("arguments", {})):
        if name not in engines:
            raise UsageError(
                f"There is no engine '{name}'; known are {', '.join(engines)}, or give --server."
            )
    interpreters = _pairs("interpreter", given.interpreter)
    import_paths = _pairs("import-path", given.import_path)
    _check_places(engines, interpreters, import_paths)
    return Options(
        plan=plan,
        engines=engines,
        servers=tuple(servers),
        only=only,
        model=None if given.model is None else Path(_value("model", _text, given.model)).expanduser(),
        interpreters={name: texts[-1] for name, texts in interpreters.items()},
        import_paths=import_paths,
        lake=given.lake or Path("lake"),
        lake_named=given.lake is not None,
        db=given.db,
        logs=given.logs,
        no_build=given.no_build,
        busy_ok=given.busy_ok,
        device_index=given.device_index,
        resume=given.resume,
        budget_minutes=_optional("budget-minutes", given.budget_minutes),
        rate_usd_per_h=_optional("rate-usd-per-h", given.rate_usd_per_h),
        health_timeout_s=_value("health-timeout", _positive, given.health_timeout),
        request_timeout_s=_value("request-timeout", _positive, given.request_timeout),
        point_timeout_s=_value("point-timeout", _positive, given.point_timeout),
        stop_timeout_s=_value("stop-timeout", _positive, given.stop_timeout),
        client_processes=_client_processes(given.client_processes),
    )


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m producers.serve", description=about)
    add = parser.add_argument
    add(
        "--engines",
        metavar="NAME,...",
        help="who is served (default: vllm,sglang with a card, else transformers)",
    )
    add("--only", metavar="NAME,...", help="only these of the run's engines now; --resume serves the others")
    add(
        "--server",
        action="append",
        metavar="NAME=COMMAND",
        help="another server; {model} and {port} are filled in",
    )
    add("--model", metavar="DIR", help="folder with config.json and tokenizer.json, and weights or none")
    add("--model-name", metavar="NAME", help="what rows call it (default: the folder's name)")
    add("--weights", metavar="KIND", help="trained, upcycled, seeded; a folder without weights is dummy")
    add(
        "--concurrency", metavar="N,...", help="requests in flight (default: 1,4,16,64 with a card, else 1,2)"
    )
    add("--repeats", metavar="N", help="of every point (default: 3)")
    add("--requests", metavar="N", help="of one point (default: 8 at 1, 24 at 4, then 4 a lane)")
    add("--input-tokens", metavar="N", help="of every prompt (default: 128 with a card, else 32)")
    add("--output-tokens", metavar="N", help="of every answer (default: 128 with a card, else 16)")
    add(
        "--request-rate",
        metavar="R",
        help="requests per second, Poisson (default: as fast as concurrency allows)",
    )
    add("--seed", metavar="N", help="of prompts, arrivals and orders (default: 0)")
    add("--engine-arg", action="append", metavar="NAME=WORDS", help="further arguments of an engine's server")
    add(
        "--interpreter",
        action="append",
        metavar="NAME=PYTHON",
        help="the Python of an engine, or of 'client'",
    )
    add("--import-path", action="append", metavar="NAME=DIR", help="folder first on its import path (repeat)")
    add("--lake", type=Path, metavar="DIR", help="where measurements are appended (default: lake)")
    add(
        "--db", type=Path, default=Path("warehouse.db"), metavar="FILE", help="the warehouse built at the end"
    )
    add(
        "--logs",
        type=Path,
        default=Path("serve-logs"),
        metavar="DIR",
        help="servers' logs and prompts, by run",
    )
    add(
        "--device-index",
        type=int,
        metavar="N",
        help="card, in nvidia-smi's order (default: the first visible)",
    )
    add("--budget-minutes", metavar="N", help="stop cleanly after this time; --resume goes on")
    add("--rate-usd-per-h", metavar="R", help="what the machine costs; recorded with the run")
    add("--health-timeout", default="600", metavar="S", help="how long a server may take to be ready")
    add("--request-timeout", default="120", metavar="S", help="longest silence of a server within a request")
    add("--point-timeout", default="600", metavar="S", help="longest a point may take")
    add(
        "--stop-timeout",
        default="20",
        metavar="S",
        help="how long a server may take to end before it is killed",
    )
    add(
        "--client-processes", metavar="N", help="that share the load (default: one for four cores, at most 4)"
    )
    add("--busy-ok", action="store_true", help="serve although the card is in use")
    add("--no-build", action="store_true", help="do not build warehouse.db at the end")
    add("--resume", nargs="?", const=NEWEST, metavar="RUN_ID", help="go on with a run (default: the newest)")
    return parser


def _custom(servers: Mapping[str, tuple[str, ...]]) -> dict[str, Engine]:
    """The engines of ``--server``."""
    engines = {}
    for name, commands in servers.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"'--server' has the name '{name}'; letters, digits, '.', '_' and '-' make a name."
            )
        try:
            engines[name] = custom(name, commands[-1])
        except ValueError as error:
            raise UsageError(
                f"'--server' has a command for '{name}' that cannot be read: {error}."
            ) from error
    return engines


def _check_places(
    engines: Mapping[str, Engine],
    interpreters: Mapping[str, tuple[str, ...]],
    import_paths: Mapping[str, tuple[str, ...]],
) -> None:
    """Refuse a place of somebody who is unknown, and a folder that is not there: both would have no effect."""
    for option, named in (("interpreter", interpreters), ("import-path", import_paths)):
        for name in named:
            if name != "client" and name not in engines:
                known = ", ".join(["client", *engines])
                raise UsageError(f"'--{option}' names '{name}', which is none of {known}.")
    for path in (path for paths in import_paths.values() for path in paths):
        if not Path(path).is_dir():
            raise UsageError(f"'--import-path' has '{path}', which is no folder.")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise ValueError("is empty")
    if len(set(names)) < len(names):
        raise ValueError(f"is '{text}', which names one twice")
    return names


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"'--engine-arg' has words for '{name}' that cannot be read: {error}.") from error


def _whole(least: int, largest: int = _LARGEST) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"is '{text}', not a whole number") from None
        if not least <= number <= largest:
            raise ValueError(f"is {number}; it lies from {least} to {largest}")
        return number

    return read


def _wholes(text: str) -> tuple[int, ...]:
    numbers = tuple(_whole(1)(part) for part in _names(text))
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"is '{text}', which names one twice")
    return numbers


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"is '{text}', not a number over 0")
    return number


def _weights(text: str) -> str:
    if text not in WEIGHTS:
        raise ValueError(f"is '{text}'; known are {', '.join(WEIGHTS)}")
    return text


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


_PLAN: dict[str, Callable[[str], Any]] = {
    "engines": _names,
    "model_name": _text,
    "weights": _weights,
    "concurrency": _wholes,
    "repeats": _whole(1),
    "requests": _whole(1),
    "input_tokens": _whole(1),
    "output_tokens": _whole(1),
    "request_rate": _positive,
    "seed": _whole(0),
}


def _value(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"'--{name.replace('_', '-')}' {error}.") from error


def _client_processes(text: str | None) -> int:
    if text is None:
        return max(1, min(_MOST_CLIENTS, (os.cpu_count() or 1) // _CORES_A_CLIENT))
    return int(_value("client-processes", _whole(1, _MOST_ASKED_CLIENTS), text))


def _optional(name: str, text: str | None) -> float | None:
    return None if text is None else float(_value(name, _positive, text))


def _pairs(option: str, items: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for item in items or ():
        name, equals, text = item.partition("=")
        if not (name and equals and text):
            raise UsageError(f"'--{option}' has '{item}', which is not NAME=VALUE.")
        found[name] = (*found.get(name, ()), text)
    return found
