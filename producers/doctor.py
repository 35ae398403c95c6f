"""`python -m producers.doctor`: what this machine can run, and what is missing.

Exit codes: 0 the default race can run here; 1 something that it needs is missing (each with what to do);
2 an option is wrong.
"""

from __future__ import annotations

# Only the standard library and our own modules that need no more: the doctor has to run where packages are missing.
import argparse
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.policy import PolicyError, load_policy
from producers import config
from producers.contestants import Registration, registry
from producers.crew import Crew
from producers.environment import Environment, detect
from producers.errors import PeerError, RaceError, UsageError
from producers.plan import CONTROL, CPU_DEFAULTS, CUDA_DEFAULTS, Entrant
from producers.process import Reply
from producers.scratch import Scratch

_HELLO_TIMEOUT_S = 180.0
_ENGINE_ADVICE = "pip install 'moe-race[{0}]' in its own environment, then --interpreter {0}=ITS/bin/python"
_ENGINES = frozenset({"vllm", "sglang"})
# What the coordinator of a race imports, and the warehouse that it builds at the end.
_PACKAGES = ("typer", "rich", "pyarrow", "duckdb")
_KERNELS_ADVICE = "pip install 'moe-race[kernels]'"


@dataclass(frozen=True)
class Finding:
    """What was looked at, whether the default race needs it, whether it is there, what to do."""

    what: str
    needed: bool
    ok: bool
    detail: str
    advice: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m producers.doctor", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--interpreter", action="append", metavar="NAME=PYTHON", help="the Python of a contestant (repeat)"
    )
    parser.add_argument("--import-path", action="append", metavar="NAME=DIR", help="as of producers.race")
    parser.add_argument("--lake", default=["lake"], nargs=1, metavar="DIR", help="where a race would append")
    parser.add_argument("--device-index", action="append", metavar="N", help="card, in nvidia-smi's order")
    try:
        given = config.read_arguments(parser.parse_args(arguments))
        environment = detect(given.get("device-index"))
        findings = examine(environment, given)
    except RaceError as error:
        sys.stderr.write(f"doctor: {error}\n")
        return error.exit_code
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    _show(findings, missing)
    return 1 if missing else 0


def examine(environment: Environment, given: dict[str, Any]) -> list[Finding]:
    """Look at the machine, at the lake, at every contestant.

    Raises:
        UsageError: an interpreter is given for a contestant that nobody knows.
    """
    device = environment.device
    driver = f", driver {device.driver_version}" if device.driver_version else ""
    mode = "compiled kernels" if device.is_cuda else "Triton's interpreter (small shapes, no GPU conclusions)"
    findings = [
        Finding(
            "python", True, sys.version_info >= (3, 11), platform.python_version(), "use Python 3.11 or newer"
        ),
        Finding("device", True, True, f"{device.device}{driver}: {mode}"),
        _packages(),
        _policy(),
        _lake(Path(given.get("lake", "lake"))),
        _duckdb(),
    ]
    return findings + _processes(environment, given)


def _packages() -> Finding:
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    detail = f"no {', '.join(absent)} in {sys.executable}" if absent else ", ".join(_PACKAGES)
    advice = "pip install moe-race into this Python, or use the one of the environment that has it"
    return Finding("packages", True, not absent, detail, advice)


def _policy() -> Finding:
    try:
        policy = load_policy()
    except PolicyError as error:
        return Finding("policy", True, False, str(error), "correct checks/policy.toml")
    return Finding("policy", True, True, f"sha256 {policy.sha256[:12]}")


def _lake(lake: Path) -> Finding:
    folder = lake.absolute()
    while not folder.exists():
        folder = folder.parent
    ok = folder.is_dir() and os.access(folder, os.W_OK)
    return Finding(
        "lake",
        True,
        ok,
        f"{lake} {'can' if ok else 'cannot'} be written",
        "choose a folder of yours with --lake",
    )


def _duckdb() -> Finding:
    beside = str(Path(sys.executable).parent)
    found = shutil.which("duckdb", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    detail = f"{found}" if found else "no duckdb command"
    return Finding(
        "duckdb", False, found is not None, detail, "pip install duckdb-cli, to query warehouse.db by hand"
    )


def _processes(environment: Environment, given: dict[str, Any]) -> list[Finding]:
    """The referee, and a worker of every known contestant in its own interpreter."""
    known = registry()
    interpreters, paths = given.get("interpreter", {}), given.get("import-path", {})
    for name in (*interpreters, *paths):
        if name not in known:
            raise UsageError(f"There is no contestant '{name}'; known are {', '.join(sorted(known))}.")
    defaults = CUDA_DEFAULTS if environment.device.is_cuda else CPU_DEFAULTS
    needed = {*defaults["contestant"], CONTROL}
    hellos: dict[str, Reply] = {}
    findings = []
    with Scratch(environment.device) as scratch:
        findings.append(_referee(scratch))
        for name, registration in known.items():
            entrant = _entrant(name, registration, interpreters.get(name), paths.get(name, ()))
            crew = Crew(
                {name: entrant},
                lambda e: scratch.worker(e, _never),
                _HELLO_TIMEOUT_S,
                lambda e, hello: hellos.update({e.name: hello}),
            )
            try:  # one after the other: imports of engines take much memory
                crew.start([name])
            finally:
                crew.close(gently=True)
            failure = crew.missing[name][1] if name in crew.missing else None
            advice = _ENGINE_ADVICE.format(name) if name in _ENGINES else _KERNELS_ADVICE
            detail = str(failure) if failure else _versions(hellos[name])
            findings.append(Finding(name, name in needed, failure is None, detail, advice))
    return findings


def _referee(scratch: Scratch) -> Finding:
    try:
        referee = scratch.referee(_never)
        try:
            hello = referee.request("hello", _HELLO_TIMEOUT_S)
        finally:
            referee.close()
    except PeerError as error:
        return Finding("referee", True, False, str(error), _KERNELS_ADVICE)
    return Finding("referee", True, True, _versions(hello))


def _entrant(
    name: str, registration: Registration, interpreter: str | None, paths: tuple[str, ...]
) -> Entrant:
    return Entrant(
        name,
        registration.house,
        registration.implementation,
        registration.options,
        interpreter=interpreter,
        import_paths=tuple(paths),
    )


def _versions(hello: Reply) -> str:
    labels = {"python_version": "Python", "torch_version": "torch", "triton_version": "Triton"}
    return ", ".join(f"{label} {hello[key]}" for key, label in labels.items() if hello.get(key))


def _never() -> None:
    """Nothing interrupts the doctor but Ctrl-C."""


def _show(findings: list[Finding], missing: list[Finding]) -> None:
    widest = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark = "ok" if finding.ok else "MISSING" if finding.needed else "absent"
        print(f"{mark:<7}  {finding.what:<{widest}}  {finding.detail}")
    for finding in missing:
        print(f"{finding.what}: {finding.advice}")
    if not missing:
        print("The default race can run here: python -m producers.race")


if __name__ == "__main__":
    sys.exit(main())
