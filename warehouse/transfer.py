"""``warehouse pack`` and ``warehouse import-lake``: a lake on its way between machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warehouse.options import LOCAL, OK, PARTIAL, finish, project_root

if TYPE_CHECKING:
    from warehouse.lake import LakeFile, Stray


def pack_command(
    lake: Annotated[Path, typer.Argument(help="The lake to pack.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Folder of the pack: new or empty.", show_default=False)],
) -> None:
    """Write a lake into few files of at most 16 MB, with a manifest. Exit 3: damaged files were left out."""

    def work() -> int:
        from warehouse.pack import pack  # noqa: PLC0415

        report = pack([lake], out)
        for name, size in report.files.items():
            print(f"{name:<28}{size:>12} bytes")
        print(f"{out}: {sum(report.rows.values())} rows of {len(report.rows)} tables")
        return _left_out(report.unreadable, report.strays)

    finish(work)


def import_lake_command(
    source: Annotated[Path, typer.Argument(help="Another machine's lake, or a pack.", show_default=False)],
    lake: Annotated[
        Path | None,
        typer.Option("--lake", help="The lake to add to. Default: lake/ of the project.", show_default=False),
    ] = None,
) -> None:
    """Add what another lake has and this one lacks. Exit 1: rows that disagree; 3: damaged files left out."""

    def work() -> int:
        from warehouse.merge import import_lake  # noqa: PLC0415

        target = lake or project_root() / LOCAL
        report = import_lake(source, target)
        for table, added in report.added.items():
            if added or report.recognised[table]:
                print(f"{table:<18}{added:>10} added{report.recognised[table]:>12} there already")
        print(f"{target}: {sum(report.added.values())} rows added")
        return _left_out(report.unreadable, report.strays)

    finish(work)


def _left_out(unreadable: Iterable[LakeFile], strays: Iterable[Stray]) -> int:
    """Name what did not travel, and return the exit code."""
    code = OK
    for stray in strays:
        print(f"note: {stray.path}: {stray.reason}", file=sys.stderr)
    for file in unreadable:
        print(f"warehouse: {file.path} is {file.status} and left out: {file.reason}.", file=sys.stderr)
        code = PARTIAL
    return code
