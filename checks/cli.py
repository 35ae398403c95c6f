"""The ``checks`` command. Heavy imports stand inside the commands, so that ``--help`` is quick."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from checks.model import Rule
    from checks.session import Session

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


Db = Annotated[Path, typer.Option("--db", help="The warehouse.")]
Lakes = Annotated[
    list[Path] | None,
    typer.Option(
        "--lake", help="Lake that the warehouse must be current with; may be repeated. Default: lake/."
    ),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="The policy of today. Default: the one of this package.")
]
Project = Annotated[
    Path, typer.Option("--project", help="Folder of the pyproject.toml whose documents are scanned.")
]
Suites = Annotated[list[str] | None, typer.Option("--suite", help="Only this suite; may be repeated.")]
WAREHOUSE, PROJECT, REPORTS = Path("warehouse.db"), Path(), Path("reports")


@app.command("run")
def run_command(
    db: Db = WAREHOUSE,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = PROJECT,
    suite: Suites = None,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TEXT,
    receipt: Annotated[
        Path | None, typer.Option(help="Receipt to verify. Default: reports/receipt.json where it exists.")
    ] = None,
) -> None:
    """Judge everything. Exit 0: all holds, 1: something is false, 2: wrong usage, 3: not all was judged."""

    def work() -> int:
        from checks.formats import FORMATS  # noqa: PLC0415

        with _session(db, lake, policy, project) as session:
            gate = session.gate(
                suite or (), receipt=receipt or REPORTS / "receipt.json", needed=receipt is not None
            )
        print(FORMATS[output.value](gate))
        return gate.exit_code

    _exit(work)


@app.command("report")
def report_command(
    db: Db = WAREHOUSE,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = PROJECT,
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = REPORTS,
) -> None:
    """Write report.md, report.html and receipt.json, only if the gate holds; its exit code otherwise."""

    def work() -> int:
        from checks.formats import text  # noqa: PLC0415

        with _session(db, lake, policy, project) as session:
            gate = session.gate(())
            if gate.exit_code == 0:
                from checks.report import write  # noqa: PLC0415

                for path in write(session, gate, out):
                    print(path)
        print(text(gate), file=sys.stdout if gate.exit_code == 0 else sys.stderr)
        if gate.exit_code != 0:
            kept = out / "report.md"
            stale = f"; {kept} is of an earlier lake and stale" if kept.exists() else ""
            print(f"checks report: the gate is closed, nothing was written{stale}", file=sys.stderr)
        return gate.exit_code

    _exit(work)


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
    db: Db = WAREHOUSE,
    lake: Lakes = None,
    policy: PolicyFile = None,
    project: Project = PROJECT,
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
        if not db.exists():
            print(f"\nrows: there is no warehouse at {db}")
            return 0
        with _session(db, lake, policy, project) as session:
            print("\nrows:")
            print(session.rows_of(rule))
            result = session.judge(rule)
        print(f"\n{result.status.value} ({result.rows} rows)")
        for finding in result.findings:
            print(f"  {finding.status.value}: {finding.line}")
        return 0

    _exit(work)


def _describe(rule: Rule) -> None:
    from textwrap import dedent  # noqa: PLC0415

    print(f"{rule.id} ({rule.severity.value}): {rule.about}\n\nrule:")
    print("  at least one row, and no unknown value in a column that is judged")
    for expectation in rule.expectations:
        print(f"  {expectation}")
    print(f"\nquery:\n{dedent(rule.query).strip()}")


def _session(db: Path, lakes: list[Path] | None, policy: Path | None, project: Path) -> Session:
    from checks.session import Session  # noqa: PLC0415

    return Session(db, lakes, policy, project)


def _exit(work: Callable[[], int]) -> NoReturn:
    """Run ``work`` and leave with its exit code; a known error is its sentence and exit code 2."""
    from checks.errors import ChecksError  # noqa: PLC0415
    from checks.policy import PolicyError  # noqa: PLC0415
    from warehouse.errors import WarehouseError  # noqa: PLC0415

    try:
        code = work()
    except (ChecksError, PolicyError, WarehouseError) as error:
        print(f"checks: {error}", file=sys.stderr)
        code = 2
    raise SystemExit(code)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
