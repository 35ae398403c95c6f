"""Charts of a race as inline SVG, drawn by matplotlib. Each contestant has its own marker beside its colour."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from checks.report.canvas import (
    FAINT,
    INK,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    STYLE,
    color_of,
    gid,
    marker_of,
    svg_of,
)
from checks.report.content import Block
from checks.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def times_chart(block: Block) -> str:
    """Time against tokens, a panel for each precision and routing, with intervals and the measured floor."""

    def draw(ax: Axes, rows: list[Row]) -> None:
        _series(ax, block, rows, "contestant", "time_us", "lo_us", "hi_us")
        floors = sorted({(r["tokens"], r["reference_floor_us"]) for r in rows if r["reference_floor_us"]})
        if floors:
            ax.plot(
                *zip(*floors, strict=True),
                color=INK,
                linestyle="--",
                linewidth=1,
                marker="_",
                gid=gid("floor"),
            )
            ax.lines[-1].set_label("floor")
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    rows = [r for r in block.times if r["role"] != "control" and r["time_us"] is not None]
    return _panels(rows, draw, "time, us", f"Time against tokens, {block.place}")


def speedups_chart(block: Block) -> str:
    """Speedup of the block's subject over each rival, with intervals; over 1 the subject is faster."""

    def draw(ax: Axes, rows: list[Row]) -> None:
        bands = [r["tie_band"] for r in rows if r["tie_band"] is not None]
        if bands:
            ax.axhspan(1 / (1 + max(bands)), 1 + max(bands), color=FAINT, alpha=0.5, linewidth=0)
        ax.axhline(1, color=INK, linewidth=1)
        _series(ax, block, rows, "rival", "speedup_vs_rival", "lo", "hi")

    rows = [r for r in block.ratios if r["contestant"] == block.subject and r["speedup_vs_rival"] is not None]
    return _panels(rows, draw, f"speedup of {block.subject}", f"Speedup over each rival, {block.place}")


def spreads_chart(block: Block) -> str:
    """Spread of single executions about their cell's median: middle half, 1st to 99th percentile."""
    rows = block.spreads
    if not rows:
        return ""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL_WIDTH, 0.7 + 0.38 * len(rows)))
        ax = figure.add_subplot()
        for place, row in enumerate(rows):
            color = _color(block, row["contestant"])
            ax.plot(
                [row["p01"], row["p99"]],
                [place, place],
                color=color,
                linewidth=1.5,
                gid=gid(row["contestant"]),
            )
            ax.plot([row["p25"], row["p75"]], [place, place], color=color, linewidth=8, solid_capstyle="butt")
            ax.plot([row["p50"]], [place], color=INK, marker="|", markersize=12)
        ax.set_yticks(range(len(rows)), [r["contestant"] for r in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlabel("time of one execution / median of its contestant in its cell")
        return svg_of(figure, f"Spread of samples, {block.place}")


def _panels(rows: list[Row], draw: Callable[[Axes, list[Row]], None], label: str, title: str) -> str:
    """Draw a grid of panels, one for each precision and routing of ``rows``; empty text without rows."""
    panels = sorted({(r["precision"], r["routing"]) for r in rows})
    if not panels:
        return ""
    with mpl.rc_context(STYLE):
        across = min(2, len(panels))
        down = -(-len(panels) // across)
        figure = Figure(figsize=(2 * PANEL_WIDTH, down * PANEL_HEIGHT + 0.5))
        axes = figure.subplots(down, across, squeeze=False)
        handles: dict[str, Any] = {}
        for ax, panel in zip(axes.flat, panels, strict=False):
            mine = [r for r in rows if (r["precision"], r["routing"]) == panel]
            draw(ax, mine)
            tokens = sorted({r["tokens"] for r in mine})
            ax.set_xscale("log", base=2)
            ax.set_xticks(tokens, [str(t) for t in tokens])
            ax.minorticks_off()
            ax.set_title(", ".join(panel), loc="left")
            ax.set_xlabel("tokens")
            ax.set_ylabel(label)
            handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        for ax in list(axes.flat)[len(panels) :]:
            ax.set_axis_off()
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=min(6, len(handles)))
        return svg_of(figure, title)


def _series(ax: Axes, block: Block, rows: list[Row], name: str, value: str, low: str, high: str) -> None:
    """Draw one line with interval bars for each ``name``; a row without an interval has no bar."""
    for key, group in groupby(sorted(rows, key=lambda r: (r[name], r["tokens"])), lambda r: r[name]):
        mine = list(group)
        below = [r[value] - (r[value] if r[low] is None else min(r[low], r[value])) for r in mine]
        above = [(r[value] if r[high] is None else max(r[high], r[value])) - r[value] for r in mine]
        place = _place(block, key)
        line, _, _ = ax.errorbar(
            [r["tokens"] for r in mine],
            [r[value] for r in mine],
            yerr=[below, above],
            color=_color(block, key),
            marker=marker_of(place),
            markersize=4,
            linewidth=1.3,
            elinewidth=1,
            capsize=2,
            label=key,
        ).lines
        if line is not None:
            line.set_gid(gid(str(key)))


def _place(block: Block, contestant: str) -> int:
    return block.contestants.index(contestant) if contestant in block.contestants else len(block.contestants)


def _color(block: Block, contestant: str) -> str:
    return color_of(_place(block, contestant))
