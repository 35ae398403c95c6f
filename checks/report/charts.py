"""Charts as inline SVG, drawn by matplotlib.

Colours are drawn with placeholders and replaced by CSS variables, so that one picture serves a light and a
dark page; text stays text, in the page's font. Each contestant has its own marker beside its colour, and
each series carries a ``<title>`` (its name, read by assistive technology and shown on hover).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from checks.report.content import Block
from checks.report.data import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Placeholders that no style of matplotlib uses, and what the page has in their place.
SERIES = [f"#a1b20{i}" for i in range(8)]
INK, FAINT = "#a1b210", "#a1b211"
VARIABLES = {c: f"var(--series-{i})" for i, c in enumerate(SERIES)} | {
    INK: "currentColor",
    FAINT: "var(--line)",
}
MARKERS = "osD^vPX*"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "figure.constrained_layout.use": True,
}
PANEL_WIDTH, PANEL_HEIGHT = 4.4, 2.9  # inches


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
                gid=_gid("floor"),
            )
            ax.lines[-1].set_label("floor")
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    rows = [r for r in block.times if r["role"] != "control" and r["time_us"] is not None]
    return _panels(rows, draw, "time, us", f"Time against tokens, {block.mode}")


def speedups_chart(block: Block) -> str:
    """Speedup of the block's subject over each rival, with intervals; over 1 the subject is faster."""

    def draw(ax: Axes, rows: list[Row]) -> None:
        bands = [r["tie_band"] for r in rows if r["tie_band"] is not None]
        if bands:
            ax.axhspan(1 / (1 + max(bands)), 1 + max(bands), color=FAINT, alpha=0.5, linewidth=0)
        ax.axhline(1, color=INK, linewidth=1)
        _series(ax, block, rows, "rival", "speedup_vs_rival", "lo", "hi")

    rows = [r for r in block.ratios if r["contestant"] == block.subject and r["speedup_vs_rival"] is not None]
    return _panels(rows, draw, f"speedup of {block.subject}", f"Speedup over each rival, {block.mode}")


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
                gid=_gid(row["contestant"]),
            )
            ax.plot([row["p25"], row["p75"]], [place, place], color=color, linewidth=8, solid_capstyle="butt")
            ax.plot([row["p50"]], [place], color=INK, marker="|", markersize=12)
        ax.set_yticks(range(len(rows)), [r["contestant"] for r in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlabel("time of one execution / median of its contestant in its cell")
        return _svg(figure, f"Spread of samples, {block.mode}")


def gaps_chart(gaps: Sequence[Row]) -> str:
    """Histogram of the stock model's logit gap where a candidate chose another token."""
    if not gaps:
        return ""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL_WIDTH, PANEL_HEIGHT))
        ax = figure.add_subplot()
        for i, (config, group) in enumerate(
            groupby(sorted(gaps, key=lambda r: r["config"]), lambda r: r["config"])
        ):
            rows = list(group)
            ax.plot(
                [r["gap_logits"] for r in rows],
                [r["positions"] for r in rows],
                color=SERIES[i % len(SERIES)],
                marker=MARKERS[i % len(MARKERS)],
                label=config,
                gid=_gid(config),
            )
        ax.set_xlabel("reference's gap, logits")
        ax.set_ylabel("positions that disagree")
        ax.legend()
        return _svg(figure, "Logit gaps where the candidate disagrees")


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
        return _svg(figure, title)


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
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            elinewidth=1,
            capsize=2,
            label=key,
        ).lines
        if line is not None:
            line.set_gid(_gid(str(key)))


def _place(block: Block, contestant: str) -> int:
    return block.contestants.index(contestant) if contestant in block.contestants else len(SERIES) - 1


def _color(block: Block, contestant: str) -> str:
    return SERIES[_place(block, contestant) % len(SERIES)]


def _gid(name: str) -> str:
    return f"series:{name}"


def _svg(figure: Figure, title: str) -> str:
    """Return the figure as an ``<svg>`` element: no ids, no fixed size, colours as CSS variables."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="series:([^"]*)">', r"<g><title>\1</title>", svg)
    kept = set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', svg))
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in kept else "", svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    for placeholder, variable in VARIABLES.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    head = (
        f'<svg class="chart" role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg">'
    )
    return re.sub(r"<svg[^>]*>", head, svg, count=1)
