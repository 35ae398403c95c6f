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
        help="A lake; may be repeated. Default: data/ (recorded) and lake/ (local) of this folder or its project.",
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

    A lake that is named is taken as it is, with ``warehouse.db`` in the current folder. Without a name it is
    the recorded lake ``data/`` and the local one ``lake/``, those that exist, of the current folder or else of
    its project; their names go to standard error, and the warehouse stands beside them.

    Raises:
        NoLakeError: none was named and there is none.
    """
    from warehouse.errors import NoLakeError  # noqa: PLC0415 - one place for heavy and light imports

    if lakes:
        return Place(tuple(dict.fromkeys(lakes)), db or Path(_WAREHOUSE))
    for root in dict.fromkeys((Path(), project_root())):
        found = default_lakes(root)
        if found:
            print(f"lake: {', '.join(map(str, found))}", file=sys.stderr)
            return Place(found, db or root / _WAREHOUSE)
    raise NoLakeError(
        f"There is no {LOCAL}/ and no {_RECORDED}/ in {Path.cwd()} or its project; "
        "name a lake with --lake, or make one with `python -m producers.race`."
    )


def default_lakes(root: Path) -> tuple[Path, ...]:
    """Return the lakes of a folder, the recorded one first, those that exist."""
    return tuple(root / name for name in (_RECORDED, LOCAL) if (root / name).is_dir())


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
