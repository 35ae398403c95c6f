"""The ``warehouse`` command. Heavy imports stand inside the commands, so that ``--help`` is quick.

Exit codes: 0 fine; 1 something in the lake is false (rows that disagree, a run without an end); 2 wrong
usage, or a place that cannot be read or written; 3 done, with damaged files left out.

A subcommand of its own module is registered here: ``app.command("name")(module.function)``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warehouse.cost import cost_command
from warehouse.importers.command import import_command
from warehouse.options import FINDINGS, OK, PARTIAL, Db, Lakes, finish, place
from warehouse.transfer import import_lake_command, pack_command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warehouse.lake import LakeFile

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The lake of measurements and the database made from it.",
)


@app.command("build")
def build_command(lake: Lakes = None, db: Db = None) -> None:
    """Build the database from the lake. Exit 3: damaged files were left out; 1: rows that disagree."""

    def work() -> int:
        from warehouse.build import build  # noqa: PLC0415

        where = place(lake, db)
        report = build(where.lakes, where.db)
        _name(report.unreadable)
        for conflict in report.conflicts:
            print(f"warehouse: {conflict}; the first in order is kept.", file=sys.stderr)
        for table, count in report.repeated.items():
            print(f"{table}: {count} repeated rows were recognised and left out")
        total, files = sum(report.rows.values()), len(report.files) - len(report.unreadable)
        print(f"{report.db}: {total} rows of {files} files, {report.seconds:.2f} s")
        if report.unreadable:
            return PARTIAL
        return FINDINGS if report.conflicts else OK

    finish(work)


@app.command("verify")
def verify_command(
    lake: Lakes = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="The policy of today. Default: the one of this package.", show_default=False),
    ] = None,
) -> None:
    """Read every byte of the lake and name what is wrong. Exit 0: nothing; 1: findings; 3: damaged files."""

    def work() -> int:
        from warehouse.verify import verify  # noqa: PLC0415

        result = verify(place(lake).lakes, policy)
        for note in result.notes:
            print(f"note: {note}")
        for finding in result.findings:
            print(f"{finding.kind}: {finding.text}")
        print(
            f"{result.rows} rows of {result.files} files in {result.runs} runs: "
            + (f"{len(result.findings)} findings" if result.findings else "no findings")
        )
        return result.exit_code

    finish(work)


@app.command("status")
def status_command(lake: Lakes = None) -> None:
    """Say what the lake holds: tables, files, rows, and runs with their last event."""

    def work() -> int:
        from warehouse.status import status  # noqa: PLC0415

        result = status(place(lake).lakes)
        print(f"{'table':<18}{'files':>7}{'rows':>12}")
        for table, (files, rows) in result.tables.items():
            print(f"{table:<18}{files:>7}{rows:>12}")
        if result.runs:
            print(f"\n{'run':<27}{'producer':<10}{'device':<18}{'last event':<13}at")
        for run in result.runs:
            print(
                f"{run.run_id:<27}{run.producer:<10}{run.device or 'unknown':<18}{run.last_event:<13}"
                f"{run.last_event_at:%Y-%m-%d %H:%M:%SZ}"
            )
        _name(result.unreadable)
        return PARTIAL if result.unreadable else OK

    finish(work)


app.command("pack")(pack_command)
app.command("import-lake")(import_lake_command)
app.command("import")(import_command)
app.command("cost")(cost_command)


def _name(unreadable: Iterable[LakeFile]) -> None:
    for file in unreadable:
        print(f"warehouse: {file.path} is {file.status} and left out: {file.reason}.", file=sys.stderr)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
