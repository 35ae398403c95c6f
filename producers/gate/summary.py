"""What a gate prints: its plan before, what the policy says of it after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from producers.errors import RaceError
from producers.gate.plan import GatePlan


def print_plan(plan: GatePlan, device: str, console: Console) -> None:
    """Model, text, windows and configurations."""
    asked = plan.asked
    console.print(
        f"{device}: {asked['model']}, {plan.positions} positions in {plan.windows} windows of {plan.context} "
        f"tokens of {asked['text'] or 'the Python documentation'}, seed {plan.seed}",
        highlight=False,
    )
    for config in plan.configs:
        console.print(f"  {config.name}, against {config.reference}", highlight=False)


def results(db: Path, run_id: str) -> list[dict[str, Any]]:
    """Rows of the view ``gate_results`` of a run.

    Raises:
        RaceError: the warehouse cannot be read.
    """
    import duckdb  # noqa: PLC0415 - a machine that only measures (--no-build) need not have it

    try:
        with duckdb.connect(str(db), read_only=True) as connection:
            found = connection.execute(
                "SELECT * FROM gate_results WHERE run_id = ? ORDER BY config_order, config", [run_id]
            )
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise RaceError(f"The gate's results cannot be read from {db} ({reason}); build it anew.") from error


def print_results(db: Path, run_id: str, console: Console) -> None:
    """A table of configurations: what was counted (gaps in logits), and what the run's policy says of it."""
    table = Table(box=None, header_style="bold")
    for column in ("config", "differ", "agreement", "large", "widest", "verdict", "why"):
        table.add_column(column, no_wrap=column != "why")
    for row in results(db, run_id):
        table.add_row(
            row["config"],
            f"{_shown(row['disagreements'])} of {row['positions']}",
            _shown(row["agreement"], "{:.2%}"),
            _shown(row["large_gaps"]),
            _shown(row["widest_gap_logits"], "{:.3f}"),
            row["verdict"],
            row["reason"] or "",
        )
    console.print(table)


def _shown(value: Any, form: str = "{}") -> str:
    return "-" if value is None else form.format(value)
