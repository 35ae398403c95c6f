"""Subcommands about claims in documents; the work is done by :mod:`checks.claims`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from checks.options import Db, Project, finish, place


def fix_command(
    db: Db = None,
    project: Project = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change.")] = False,
) -> None:
    """Rewrite stale numbers in the documents; never a sentence."""

    def work() -> int:
        from checks.claims import fix  # noqa: PLC0415

        where = place(db, project)
        rewrites = fix(where.project, where.db, dry_run=dry_run)
        for rewrite in rewrites:
            print(f"{rewrite.document}:{rewrite.line}: {rewrite.old} -> {rewrite.new}")
        print(f"{len(rewrites)} numbers {'are stale' if dry_run else 'were rewritten'}")
        return 0

    finish(work)


def new_command(
    query: Annotated[
        str, typer.Argument(help="A typed macro's call, e.g. \"speedup('dispatch', 'vllm', ...)\".")
    ],
    db: Db = None,
    project: Project = None,
) -> None:
    """Write a true sentence that is bound to a query."""

    def work() -> int:
        from checks.claims import new  # noqa: PLC0415

        written = new(query, place(db, project).db)
        print(written.sentence)
        if written.note:
            print(f"note: {written.note}", file=sys.stderr)
        return 0

    finish(work)


def claims_file_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Claims over a frame, in JSON or TOML.")],
) -> None:
    """Judge claims about the rows of a file. Exit codes as of `checks run`."""

    def work() -> int:
        from checks.claims.cases import judge_file  # noqa: PLC0415
        from checks.claims.model import Verdict  # noqa: PLC0415

        claims = judge_file(path)
        for claim in claims:
            notes = f"; {claim.notes}" if claim.notes else ""
            print(f"{claim.verdict.value}  {claim.id}  {claim.reason}{notes} ({claim.text})")
        if any(c.verdict.judged is False for c in claims):
            return 1
        return 0 if claims and all(c.verdict is Verdict.HOLDS for c in claims) else 3

    finish(work)
