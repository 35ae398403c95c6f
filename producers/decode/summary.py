"""What a decode run prints: its plan before, its rates after."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from producers.decode.plan import REFERENCE, WARM_UP_STEPS, DecodePlan

_BYTES_PER_GB = 1e9
_BYTES_PER_TB = 1e12


def print_plan(plan: DecodePlan, device: str, console: Console) -> None:
    """Model, prompt, steps and configurations."""
    console.print(
        f"{device}: {plan.asked['model']}, {plan.prompt_tokens} tokens of prompt, {WARM_UP_STEPS} untimed and "
        f"{plan.steps} timed steps, {plan.repeats} repeats, seed {plan.seed}",
        highlight=False,
    )
    for config in plan.configs:
        captured = "CUDA graph" if config.graph else "eager"
        console.print(
            f"  {config.name}: experts {config.experts} in {config.precision}, layers {config.layers}, {captured}",
            highlight=False,
        )


def print_rates(
    rates: Mapping[str, Sequence[float]], weight_bytes: Mapping[str, int], console: Console
) -> None:
    """A row for each configuration that was timed: the median over repeats, and what the weights' bytes make of it.

    Args:
        rates: configuration -> tokens a second of each repeat.
        weight_bytes: configuration -> bytes that a step must read.
        console: where to print.
    """
    columns = ("config", "tokens/s", "least", "most", "x stock", "GB a step", "TB/s")
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    stock = rates.get(REFERENCE)
    for name, found in rates.items():
        if not found:
            continue
        middle = statistics.median(found)
        ratio = f"{middle / statistics.median(stock):.2f}" if stock else ""
        size = weight_bytes[name]
        table.add_row(
            name,
            *(f"{rate:.2f}" for rate in (middle, min(found), max(found))),
            ratio,
            f"{size / _BYTES_PER_GB:.3f}",
            f"{size * middle / _BYTES_PER_TB:.3f}",
        )
    console.print(table)
