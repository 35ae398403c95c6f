"""The ``checks`` command. Heavy imports stand inside the commands, so that ``--help`` is quick.

A subcommand of its own module is registered here: ``app.command("name")(module.function)``.
"""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checks import documents
from checks.options import Db, Lakes, PolicyFile, Project, finish, place

if TYPE_CHECKING:
    from checks.model import Rule

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Judge a warehouse and the documents about it: exit 0 only if everything holds.",
)


class Format(enum.StrEnum):
    """Output formats of ``checks run``."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"


@app.command("run")
def run_command(
    db: Db = None,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = None,
    suite: Annotated[
        list[str] | None, typer.Option("--suite", help="Only this suite; may be repeated.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TEXT,
    receipt: Annotated[
        Path | None, typer.Option(help="Receipt to verify. Default: reports/receipt.json where it exists.")
    ] = None,
) -> None:
    """Judge everything. Exit 0: all holds, 1: something is false, 2: wrong usage, 3: not all was judged."""

    def work() -> int:
        from checks.formats import FORMATS  # noqa: PLC0415
        from checks.session import Session  # noqa: PLC0415

        where = place(db, project)
        with Session(where.db, lake, policy, where.project) as session:
            gate = session.gate(suite or (), receipt or where.reports / "receipt.json", needed=bool(receipt))
        print(FORMATS[output.value](gate))
        return gate.exit_code

    finish(work)


@app.command("report")
def report_command(
    db: Db = None,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the report. Default: reports/ of the project.")
    ] = None,
) -> None:
    """Write report.md, report.html and receipt.json, only if the gate holds; its exit code otherwise."""

    def work() -> int:
        from checks.formats import text  # noqa: PLC0415
        from checks.session import Session  # noqa: PLC0415

        where = place(db, project)
        folder = out or where.reports
        with Session(where.db, lake, policy, where.project) as session:
            gate = session.gate(())
            if gate.exit_code == 0:
                from checks.report import write  # noqa: PLC0415

                for path in write(session, gate, folder):
                    print(path)
        print(text(gate), file=sys.stdout if gate.exit_code == 0 else sys.stderr)
        if gate.exit_code != 0:
            kept = folder / "report.md"
            stale = f"; {kept} is of an earlier state and stale" if kept.exists() else ""
            print(f"checks report: the gate is closed, nothing was written{stale}", file=sys.stderr)
        return gate.exit_code

    finish(work)


@app.command("list")
def list_command() -> None:
    """List the suites and their rules."""
    from checks.model import Severity  # noqa: PLC0415
    from checks.suites import SUITES  # noqa: PLC0415

    for suite in SUITES.values():
        print(f"{suite.name}: {suite.about}")
        for rule in suite.rules:
            print(f"  {rule.id}{' (warning)' if rule.severity is Severity.WARNING else ''}  {rule.about}")


@app.command("explain")
def explain_command(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="As `checks list` prints it.")],
    db: Db = None,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = None,
) -> None:
    """Say what a rule asks, its query, the rows it looks at and what it came to."""

    def work() -> int:
        from checks.errors import UnknownSuiteError  # noqa: PLC0415
        from checks.suites import rule_of  # noqa: PLC0415

        try:
            rule = rule_of(rule_id)
        except KeyError:
            raise UnknownSuiteError(f"there is no rule '{rule_id}'; `checks list` names them") from None
        _describe(rule)
        where = place(db, project)
        if not where.db.exists():
            print(f"\nrows: there is no warehouse at {where.db}")
            return 0
        from checks.session import Session  # noqa: PLC0415

        with Session(where.db, lake, policy, where.project) as session:
            rows, result = session.explain(rule, where.reports / "receipt.json")
        print(f"\nrows:\n{rows}\n{result.status.value} ({result.rows} rows)")
        for finding in result.findings:
            print(f"  {finding.status.value}: {finding.line}")
        return 0

    finish(work)


def _describe(rule: Rule) -> None:
    from textwrap import dedent  # noqa: PLC0415

    print(f"{rule.id} ({rule.severity.value}): {rule.about}\n\nrule:")
    print("  at least one row, and no unknown value in a column that is judged")
    for expectation in rule.expectations:
        print(f"  {expectation}")
    print(f"\nquery:\n{dedent(rule.query).strip()}")


app.command("fix")(documents.fix_command)
app.command("new")(documents.new_command)
app.command("claims-file")(documents.claims_file_command)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
