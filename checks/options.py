"""What the subcommands of ``checks`` share: their options, the places that are meant, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from warehouse.options import project_root

USAGE, INTERRUPTED = 2, 130

Db = Annotated[
    Path | None,
    typer.Option("--db", help="The warehouse. Default: warehouse.db of this folder, else of its project."),
]
Lakes = Annotated[
    list[Path] | None,
    typer.Option(
        "--lake",
        help="A lake that the warehouse must be current with; may be repeated. Default: those it was built from.",
    ),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="The policy of today. Default: the one of this package.")
]
Project = Annotated[
    Path | None,
    typer.Option(
        "--project",
        help="Folder of the pyproject.toml that names the documents. Default: the nearest one upwards.",
    ),
]


@dataclass(frozen=True)
class Place:
    """Where a command reads, and where reports are."""

    db: Path
    project: Path

    @property
    def reports(self) -> Path:
        """The folder of the report."""
        return self.project / "reports"


def place(db: Path | None, project: Path | None) -> Place:
    """Return the warehouse and the project that are meant.

    Raises:
        ChecksError: the project that was named is no folder.
    """
    from checks.errors import ChecksError  # noqa: PLC0415 - one place for light imports

    if project is not None and not project.is_dir():
        raise ChecksError(f"there is no folder {project}; name the project's with --project")
    root = project or project_root()
    here = Path("warehouse.db")
    return Place(db or (here if here.exists() else root / here), root)


def finish(work: Callable[[], int]) -> NoReturn:
    """Run ``work`` and leave with its exit code; a known error is its sentence and exit code 2."""
    from checks.errors import ChecksError  # noqa: PLC0415
    from checks.policy import PolicyError  # noqa: PLC0415
    from warehouse.errors import WarehouseError  # noqa: PLC0415

    try:
        code = work()
    except (ChecksError, PolicyError, WarehouseError) as error:
        print(f"checks: {error}", file=sys.stderr)
        code = USAGE
    except KeyboardInterrupt:
        print("checks: stopped; nothing was written", file=sys.stderr)
        code = INTERRUPTED
    raise SystemExit(code)
