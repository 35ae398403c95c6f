"""What the subcommands of ``warehouse`` share: their options, the lake that is meant, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

Lakes = Annotated[
    list[Path] | None,
    typer.Option(
        "--lake",
        help="A lake; may be repeated. Default: lake/ of this folder or of its project, else data/.",
        show_default=False,
    ),
]
Db = Annotated[
    Path | None,
    typer.Option("--db", help="The warehouse. Default: warehouse.db beside the lake.", show_default=False),
]

OK, FINDINGS, USAGE, PARTIAL = 0, 1, 2, 3

LOCAL, _RECORDED, _WAREHOUSE = "lake", "data", "warehouse.db"


@dataclass(frozen=True)
class Place:
    """Where a command reads and writes."""

    lakes: tuple[Path, ...]
    db: Path


def place(lakes: list[Path] | None, db: Path | None = None) -> Place:
    """Return the lakes and the warehouse that are meant.

    A lake that is named is taken as it is, with ``warehouse.db`` in the current folder. Without a name the
    first of these that exists is meant: ``lake/`` here, ``lake/`` of the project, ``data/`` here and of the
    project; its name goes to standard error, and the warehouse stands beside it.

    Raises:
        NoLakeError: none was named and there is none.
    """
    from warehouse.errors import NoLakeError  # noqa: PLC0415 - one place for heavy and light imports

    if lakes:
        return Place(tuple(dict.fromkeys(lakes)), db or Path(_WAREHOUSE))
    roots = [Path(), project_root()]
    for name in (LOCAL, _RECORDED):
        for root in roots:
            if (root / name).is_dir():
                print(f"lake: {root / name}", file=sys.stderr)
                return Place((root / name,), db or root / _WAREHOUSE)
    raise NoLakeError(
        f"There is no {LOCAL}/ and no {_RECORDED}/ in {Path.cwd()} or its project; "
        "name a lake with --lake, or make one with `python -m producers.race`."
    )


def project_root() -> Path:
    """Return the nearest folder from the current one upwards that has a pyproject.toml, else the current."""
    here = Path.cwd()
    return next((f for f in (here, *here.parents) if (f / "pyproject.toml").is_file()), Path())


def finish(work: Callable[[], int]) -> NoReturn:
    """Run ``work`` and leave with its exit code; a known error is its sentence and its own exit code."""
    from checks.policy import PolicyError  # noqa: PLC0415
    from warehouse.errors import WarehouseError  # noqa: PLC0415

    try:
        code = work()
    except WarehouseError as error:
        print(f"warehouse: {error}", file=sys.stderr)
        code = error.exit_code
    except PolicyError as error:
        print(f"warehouse: {error}", file=sys.stderr)
        code = USAGE
    except KeyboardInterrupt:
        print("warehouse: stopped; what was there before is unchanged.", file=sys.stderr)
        code = 130
    raise SystemExit(code)
