"""What a race will do: its cells, who takes part in which role, rounds and sessions.

Made from what was asked for, the device's defaults, the policy (which rivals a device requires) and
the registry of contestants. Nothing here starts a process or writes a file.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from producers.config import PLAN_OPTIONS, routing_exponent
from producers.errors import UsageError

Asked = Mapping[str, Any]

CONTROL = "dispatch-control"

CUDA_DEFAULTS: Asked = {
    "workload": ("deepseek-moe-16b",),
    "precision": ("bf16", "int8_w8a16", "int8_w8a8"),
    "routing": ("uniform", "zipf"),
    "tokens": (1, 4, 16, 64, 128, 512, 2048),
    "mode": ("graph", "eager"),
    "contestant": ("dispatch", "dispatch-naive", "dispatch-persistent", "torch-grouped", "vllm", "sglang"),
    "rounds": 12,
    "sessions": 6,
    "samples": 20,
    "seed": 0,
}
CPU_DEFAULTS: Asked = {
    **CUDA_DEFAULTS,
    "workload": ("interpreter-small",),
    "tokens": (2,),
    "mode": ("eager",),
    "contestant": ("dispatch", "dispatch-naive", "dispatch-persistent", "example"),
    "sessions": 4,
    "samples": 1,
}

# Guesses behind the estimate of --dry-run, seconds: (start of a session, preparing a cell, one sample call
# without its samples, one sample).
_CUDA_COSTS = (45.0, 1.5, 0.005, 0.0008)
_CPU_COSTS = (15.0, 1.5, 0.001, 0.2)


class Workload(Protocol):
    """An MoE shape (of :mod:`producers.workloads`)."""

    @property
    def experts(self) -> int: ...  # noqa: D102
    @property
    def top_k(self) -> int: ...  # noqa: D102
    @property
    def hidden(self) -> int: ...  # noqa: D102
    @property
    def intermediate(self) -> int: ...  # noqa: D102


class Registration(Protocol):
    """A known contestant (of :mod:`producers.contestants`)."""

    @property
    def implementation(self) -> str: ...  # noqa: D102
    @property
    def house(self) -> str: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def config_source(self) -> str | None: ...  # noqa: D102


class Policy(Protocol):
    """What a plan needs of the thresholds."""

    def required(self, device: str, precision: str) -> Sequence[str]: ...  # noqa: D102


@dataclass(frozen=True)
class Cell:
    """One cell; the fields are the columns of table ``cells`` that are known before the draw."""

    cell_id: str
    workload: str
    experts: int
    top_k: int
    hidden: int
    intermediate: int
    precision: str
    routing: str
    zipf_s: float | None
    tokens: int

    def row(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def shape(self) -> dict[str, Any]:
        """What the referee draws weights from."""
        return {
            "name": self.workload,
            "experts": self.experts,
            "top_k": self.top_k,
            "hidden": self.hidden,
            "intermediate": self.intermediate,
        }


@dataclass(frozen=True)
class Entrant:
    """A contestant that takes part, and how its worker is started."""

    name: str
    house: str
    implementation: str
    options: Mapping[str, Any] = field(default_factory=dict)
    config_source: str | None = None
    control_of: str | None = None
    interpreter: str | None = None  # None: the coordinator's own
    import_paths: tuple[str, ...] = ()
    precisions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Seat:
    """One row of the roster: the role of a contestant for a precision, entered or left out."""

    contestant: str
    house: str
    role: str
    entered: bool
    precision: str
    entrant: Entrant | None


@dataclass(frozen=True)
class Plan:
    """A whole race. ``asked`` is what table ``runs`` keeps as plan_json."""

    asked: Asked
    cells: tuple[Cell, ...]
    entrants: tuple[Entrant, ...]
    seats: tuple[Seat, ...]
    modes: tuple[str, ...]
    rounds: int
    sessions: int
    samples: int
    seed: int

    def rounds_of(self, session: int) -> range:
        """The rounds of a session, counted over the whole run.

        Session numbers of a second card start at ``sessions`` and have the same rounds again.
        """
        session %= self.sessions
        return range(
            session * self.rounds // self.sessions,
            (session + 1) * self.rounds // self.sessions,
        )

    def order(self, cell: Cell, mode: str, round_: int, names: Sequence[str]) -> list[str]:
        """The contestants in this round's order: shuffled, and the same again for the same seed."""
        shuffled = sorted(names)
        # Seeded with text, which Python hashes with SHA-512: the same order on every machine.
        random.Random(f"{self.seed}/{cell.cell_id}/{mode}/{round_}").shuffle(shuffled)  # noqa: S311
        return shuffled

    def left_out(self, precision: str) -> list[Seat]:
        """Required rivals of a precision that do not take part."""
        return [seat for seat in self.seats if seat.precision == precision and not seat.entered]

    def estimate_s(self, *, cuda: bool) -> float:
        """A rough guess of the whole race's duration, for people; nothing depends on it."""
        start, prepare, call, sample = _CUDA_COSTS if cuda else _CPU_COSTS
        total = self.sessions * (start + prepare * len(self.cells))
        for cell in self.cells:
            racing = sum(cell.precision in entrant.precisions for entrant in self.entrants)
            total += len(self.modes) * self.rounds * racing * (call + self.samples * sample)
        return total


def make_plan(
    asked: Asked,
    *,
    device: str,
    cuda: bool,
    policy: Policy,
    registry: Mapping[str, Registration],
    workloads: Mapping[str, Workload],
    interpreters: Mapping[str, str] | None = None,
    import_paths: Mapping[str, Sequence[str]] | None = None,
    tables: Mapping[str, str] | None = None,
    baseline: tuple[str, str] | None = None,
) -> Plan:
    """Plan a race.

    Args:
        asked: plan options that were given (:data:`producers.config.PLAN_OPTIONS`).
        device: model name, as the policy spells it.
        cuda: whether the device is a card (else Triton's interpreter).
        policy: who is required.
        registry: every known contestant by name.
        workloads: every known MoE shape by name.
        interpreters: contestant -> Python.
        import_paths: contestant -> folders.
        tables: contestant that runs with tuned configurations -> folder of them.
        baseline: (full revision, folder that holds its ``dispatch``).

    Raises:
        UsageError: something that was asked for does not exist or does not fit together.
    """
    want = {
        **(CUDA_DEFAULTS if cuda else CPU_DEFAULTS),
        **{k: v for k, v in asked.items() if k in PLAN_OPTIONS},
    }
    if want["rounds"] < want["sessions"]:
        raise UsageError(
            f"{want['rounds']} rounds cannot be spread over {want['sessions']} sessions; ask for more."
        )
    if not cuda and "graph" in want["mode"]:
        raise UsageError(
            "Timing mode 'graph' needs a CUDA device; under the interpreter only 'eager' exists."
        )
    cells = _cells(want, workloads)
    precisions = list(dict.fromkeys(cell.precision for cell in cells))
    required = {precision: list(policy.required(device, precision)) for precision in precisions}
    names = _contestants(want, registry, required)
    entrants = [
        Entrant(
            name=name,
            house=registry[name].house,
            implementation=registry[name].implementation,
            options=registry[name].options,
            config_source=registry[name].config_source,
            control_of="dispatch" if name == CONTROL else None,
            precisions=_precisions_of(name, registry[name].house, required, named="contestant" in asked),
        )
        for name in names
    ]
    if baseline is not None:
        entrants.append(_baseline(baseline, registry, precisions))
    entrants = _placed(entrants, interpreters or {}, import_paths or {}, tables or {})
    entrants = [entrant for entrant in entrants if entrant.precisions]
    if not any(entrant.control_of is None for entrant in entrants):
        raise UsageError("No contestant is left to race; name one with --contestant.")
    return Plan(
        asked=want,
        cells=tuple(cells),
        entrants=tuple(entrants),
        seats=tuple(_seats(entrants, required, registry)),
        modes=tuple(want["mode"]),
        rounds=want["rounds"],
        sessions=want["sessions"],
        samples=want["samples"],
        seed=want["seed"],
    )


def _cells(want: Asked, workloads: Mapping[str, Workload]) -> list[Cell]:
    """Every cell that was asked for, weights of one precision side by side."""
    for name in want["workload"]:
        if name not in workloads:
            raise UsageError(f"There is no workload '{name}'; known are {', '.join(sorted(workloads))}.")
    globs = want.get("cells")
    cells = []
    for name, precision, routing, tokens in itertools.product(
        want["workload"], want["precision"], want["routing"], want["tokens"]
    ):
        shape = workloads[name]
        short = f"{precision}/{routing}/{tokens}"
        cell = Cell(
            cell_id=f"{name}/{short}",
            workload=name,
            experts=shape.experts,
            top_k=shape.top_k,
            hidden=shape.hidden,
            intermediate=shape.intermediate,
            precision=precision,
            routing=routing,
            zipf_s=routing_exponent(routing),
            tokens=tokens,
        )
        if not globs or any(fnmatchcase(short, glob) or fnmatchcase(cell.cell_id, glob) for glob in globs):
            cells.append(cell)
    if not cells:
        raise UsageError(
            f"No cell matches {', '.join(globs or ())}; --dry-run without --cells lists them all."
        )
    return cells


def _contestants(
    want: Asked, registry: Mapping[str, Registration], required: Mapping[str, Sequence[str]]
) -> list[str]:
    """Names that take part: asked for (or default), less those left out, plus the control always."""
    left_out = set(want.get("leave-out") or ())
    known = {*registry, *itertools.chain.from_iterable(required.values())}
    for name in (*want["contestant"], *sorted(left_out)):
        if name not in (registry if name in want["contestant"] else known):
            raise UsageError(f"There is no contestant '{name}'; known are {', '.join(sorted(registry))}.")
    names = [name for name in want["contestant"] if name not in left_out]
    if CONTROL in left_out:
        raise UsageError(f"The control '{CONTROL}' cannot be left out: it measures the noise of the race.")
    return [*names, CONTROL] if CONTROL not in names else names


def _precisions_of(
    name: str, house: str, required: Mapping[str, Sequence[str]], *, named: bool
) -> frozenset[str]:
    """Where a contestant races: by default not where nobody requires it, for its refusals would be noise."""
    if named or house == "dispatch":
        return frozenset(required)
    return frozenset(precision for precision, rivals in required.items() if name in rivals)


def _baseline(
    baseline: tuple[str, str], registry: Mapping[str, Registration], precisions: Sequence[str]
) -> Entrant:
    revision, folder = baseline
    ours = registry["dispatch"]
    return Entrant(
        name=f"dispatch@{revision[:12]}",
        house=ours.house,
        implementation=ours.implementation,
        options=ours.options,
        config_source=ours.config_source,
        import_paths=(folder,),
        precisions=frozenset(precisions),
    )


def _placed(
    entrants: Sequence[Entrant],
    interpreters: Mapping[str, str],
    import_paths: Mapping[str, Sequence[str]],
    tables: Mapping[str, str],
) -> list[Entrant]:
    """The entrants with the interpreter, import paths and tables that were given for them."""
    by_name = {entrant.name: entrant for entrant in entrants}
    options = (("interpreter", interpreters), ("import-path", import_paths), ("tables", tables))
    for option, given in options:
        for name in given:
            if name not in by_name:
                raise UsageError(f"--{option} names '{name}', who does not take part.")
    for name, folder in tables.items():
        if by_name[name].config_source != "tuned":
            raise UsageError(f"--tables names '{name}', who runs as shipped; {name}-tuned has tables.")
        if not Path(folder).is_dir():
            raise UsageError(f"--tables of '{name}': there is no folder {folder}; producers.tune writes one.")
    return [
        replace(
            entrant,
            interpreter=interpreters.get(entrant.name),
            options={**entrant.options, **_tables_option(tables.get(entrant.name))},
            import_paths=(*import_paths.get(entrant.name, ()), *entrant.import_paths),
        )
        for entrant in entrants
    ]


def _tables_option(folder: str | None) -> dict[str, str]:
    return {} if folder is None else {"tables": str(Path(folder).resolve())}


def _seats(
    entrants: Sequence[Entrant], required: Mapping[str, Sequence[str]], registry: Mapping[str, Registration]
) -> list[Seat]:
    seats = []
    for precision, rivals in required.items():
        racing = [entrant for entrant in entrants if precision in entrant.precisions]
        for entrant in racing:
            role = (
                "control" if entrant.control_of else "required" if entrant.name in rivals else "informational"
            )
            seats.append(Seat(entrant.name, entrant.house, role, True, precision, entrant))
        for name in rivals:
            if name not in {entrant.name for entrant in racing}:
                house = registry[name].house if name in registry else name
                seats.append(Seat(name, house, "required", False, precision, None))
    return seats
