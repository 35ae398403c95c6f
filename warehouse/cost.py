"""``warehouse cost``: what a run cost, from a bill or at a rate, as rows of ``costs``."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from warehouse.options import LOCAL, OK, finish, project_root

Row = dict[str, Any]


def cost_row(
    run_id: str,
    *,
    amount_usd: float | None,
    period_s: float | None,
    rate_usd_per_h: float | None,
    covers: str,
    source: str,
) -> Row:
    """A row of ``costs``: a billing record (amount and period), or a rate.

    Its identity follows from its content, so that recording it twice adds nothing.

    Raises:
        CostError: it is neither or both, a number is not over 0, or a text is blank.
    """
    from warehouse.errors import CostError  # noqa: PLC0415 - see warehouse.cli

    if (rate_usd_per_h is None) == (amount_usd is None):
        raise CostError(
            "A cost is a bill (--amount-usd and --period-s) or a rate (--rate-usd-per-h): give one."
        )
    if amount_usd is not None and period_s is None:
        raise CostError("A bill needs --period-s, the time that it pays for.")
    for name, value in (
        ("--amount-usd", amount_usd),
        ("--period-s", period_s),
        ("--rate-usd-per-h", rate_usd_per_h),
    ):
        if value is not None and not 0 < value < math.inf:
            raise CostError(f"{name} is {value}; it is a number over 0.")
    if amount_usd is not None and period_s is not None and not 3600 * amount_usd / period_s < math.inf:
        raise CostError(f"{amount_usd:g} $ for {period_s:g} s is no price of an hour; correct one of them.")
    for name, text in (("--covers", covers), ("--source", source)):
        if not text.strip():
            raise CostError(f"{name} is blank; say what the money paid for, and where the figure comes from.")
    content: Row = {
        "run_id": run_id,
        "basis": "rate" if amount_usd is None else "billing",
        "amount_usd": amount_usd,
        "period_s": period_s,
        "rate_usd_per_h": rate_usd_per_h,
        "covers": covers.strip(),
        "source": source.strip(),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {"cost_id": f"{run_id}/{digest[:16]}", **content}


def record(lake: Path, row: Row) -> bool:
    """Append a cost; False where the lake has it already.

    Raises:
        NoLakeError: ``lake`` is none.
        CostError: it has no such run.
    """
    from warehouse.append import append  # noqa: PLC0415 - as above
    from warehouse.errors import CostError  # noqa: PLC0415
    from warehouse.lake import require  # noqa: PLC0415

    require([lake])
    runs = _values(lake, "runs", "run_id")
    if row["run_id"] not in runs:
        known = ", ".join(sorted(runs)[-3:]) or "none"
        raise CostError(f"There is no run '{row['run_id']}' in {lake}; the newest are {known}.")
    if row["cost_id"] in _values(lake, "costs", "cost_id"):
        return False
    append(lake, "costs", [{**row, "recorded_at": datetime.now(UTC)}])
    return True


def cost_command(
    run_id: Annotated[str, typer.Argument(help="The run that was paid for.", show_default=False)],
    covers: Annotated[str, typer.Option(help="What the money paid for.", show_default=False)],
    source: Annotated[str, typer.Option(help="Where the figure comes from.", show_default=False)],
    amount_usd: Annotated[
        float | None, typer.Option(help="A bill: what was charged.", show_default=False)
    ] = None,
    period_s: Annotated[
        float | None, typer.Option(help="A bill: the time it pays for.", show_default=False)
    ] = None,
    rate_usd_per_h: Annotated[float | None, typer.Option(help="A rate, instead.", show_default=False)] = None,
    lake: Annotated[
        Path | None,
        typer.Option("--lake", help="The run's lake. Default: lake/ of the project.", show_default=False),
    ] = None,
) -> None:
    """Record what a run cost; a bill beats a rate wherever both are known."""

    def work() -> int:
        target = lake or project_root() / LOCAL
        row = cost_row(
            run_id,
            amount_usd=amount_usd,
            period_s=period_s,
            rate_usd_per_h=rate_usd_per_h,
            covers=covers,
            source=source,
        )
        print(f"{target}: {row['cost_id']} {'added' if record(target, row) else 'is there already'}")
        return OK

    finish(work)


def _values(lake: Path, table: str, column: str) -> set[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    from warehouse.lake import scan  # noqa: PLC0415

    found: set[str] = set()
    for path in scan(lake).files(table):
        found.update(pq.read_table(path, columns=[column], partitioning=None)[column].to_pylist())
    return found
