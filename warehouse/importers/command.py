"""``warehouse import``: the command line of the importers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warehouse.options import LOCAL, OK, default_lakes, finish, project_root

if TYPE_CHECKING:
    from warehouse.importers.importing import Skipped
    from warehouse.importers.store import Stored

_SHOWN = 20  # refusals of a file on the terminal; the lake keeps all


def import_command(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FORMAT] PATH...",
            help="Files and folders. The format is detected, and named, where it is left out.",
            show_default=False,
        ),
    ] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="The format of all files.")] = None,
    lake: Annotated[
        Path | None,
        typer.Option("--lake", help="The lake to add to. Default: lake/ of the project.", show_default=False),
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Bad records of a file that has good ones are no failure.")
    ] = False,
    unit: Annotated[str | None, typer.Option(help="Unit of the figures, where the file has none.")] = None,
    direction: Annotated[
        str | None, typer.Option(help="'lower' or 'higher': which is better, where the file does not say.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device, where the file has none.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, where the file has none.")] = None,
    engine: Annotated[str | None, typer.Option(help="The engine, where the file has none.")] = None,
    prefix_cache: Annotated[
        str | None, typer.Option(help="'off' or 'on', where the file does not say.", show_default=False)
    ] = None,
    formats: Annotated[bool, typer.Option("--formats", help="List the formats and end.")] = False,
) -> None:
    """Add result files of other tools. Exit 2: an option is missing or wrong; 3: done, with records left out."""

    def work() -> int:
        from warehouse.importers.base import Given  # noqa: PLC0415
        from warehouse.importers.importing import ImportReport, import_paths  # noqa: PLC0415
        from warehouse.importers.registry import importers  # noqa: PLC0415

        if formats:
            for importer in importers().values():
                print(f"{importer.name:<22}{importer.about}")
            return OK
        chosen, paths = _meant(arguments or [], format_name)
        given = Given(
            unit=_said("--unit", unit),
            direction=_one_of("--direction", direction, "lower", "higher"),
            device=_said("--device", device),
            model=_said("--model", model),
            engine=_said("--engine", engine),
            prefix_cache=_one_of("--prefix-cache", prefix_cache, "off", "on"),
        )
        report = ImportReport()
        target = lake or project_root() / LOCAL
        beside = () if lake else default_lakes(project_root())
        for outcome in import_paths(paths, target, chosen, given, beside):
            report.outcomes.append(outcome)
            _say(outcome)
        rows = sum(sum(stored.rows.values()) for stored in report.stored)
        print(f"{target}: {rows} rows added from {len(report.stored)} files")
        return report.exit_code(allow_partial=allow_partial)

    finish(work)


def _meant(arguments: Sequence[str], format_name: str | None) -> tuple[str | None, list[Path]]:
    """Tell a format in front of the paths from a path: it is one where it names a format and no file.

    Raises:
        UnknownFormatError: there is no such format.
        UsageError: no path was given.
    """
    from warehouse.importers.base import UsageError  # noqa: PLC0415
    from warehouse.importers.registry import by_name, importers  # noqa: PLC0415

    paths = list(arguments)
    word = paths[0] if paths and "/" not in paths[0] and not os.path.lexists(paths[0]) else None
    if format_name is None and word and (len(paths) > 1 or word.replace("_", "-") in importers()):
        format_name = by_name(paths.pop(0)).name
    if not paths or not all(map(str.strip, paths)):  # Path("") would be the current folder
        raise UsageError("give the file or folder to import: `warehouse import [FORMAT] PATH...`.")
    return format_name, [Path(path) for path in paths]


def _one_of(option: str, value: str | None, *choices: str) -> str | None:
    from warehouse.importers.base import UsageError  # noqa: PLC0415

    if value is not None and value not in choices:
        raise UsageError(f"{option} is {' or '.join(map(repr, choices))}, not '{value}'.")
    return value


def _said(option: str, value: str | None) -> str | None:
    from warehouse.importers.base import UsageError  # noqa: PLC0415

    if value is not None and not value.strip():
        raise UsageError(f"{option} is blank; say what it is, or leave it out.")
    return value


def _say(outcome: Stored | Skipped) -> None:
    from warehouse.importers.base import Kind  # noqa: PLC0415
    from warehouse.importers.importing import Skipped  # noqa: PLC0415

    if isinstance(outcome, Skipped):
        if outcome.bad:
            print(f"warehouse: {outcome.source}: not imported: {outcome.reason}", file=sys.stderr)
        else:
            print(f"{outcome.source}: left out: {outcome.reason}")
        return
    added = ", ".join(f"{count} {table}" for table, count in outcome.rows.items()) or "nothing new"
    kinds = [f"{outcome.refused(kind)} {kind.value}" for kind in Kind if outcome.refused(kind)]
    already = ", imported before" if outcome.already else ""
    print(
        f"{outcome.source}: {outcome.format}{already}: {outcome.records_in} records, {added}"
        + (f"; no row: {', '.join(kinds)}" if kinds else "")
    )
    for note in outcome.notes:
        print(f"  note: {note}")
    for refusal in outcome.refusals[:_SHOWN]:
        words = f"{outcome.source}, {refusal.place}: {refusal.reason}"
        if refusal.kind is Kind.BAD:
            print(f"warehouse: {words}.", file=sys.stderr)
        else:
            print(f"  {refusal.kind.value}: {words}")
    if len(outcome.refusals) > _SHOWN:
        print(f"  and {len(outcome.refusals) - _SHOWN} more, all of them in `imports`.refusals_json")
