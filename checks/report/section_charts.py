"""Charts of the gate, of decode inside a model and of served engines, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from checks.report.canvas import INK, PANEL_HEIGHT, PANEL_WIDTH, STYLE, color_of, gid, marker_of, svg_of
from checks.report.sections import Decode, Gate, Served

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BIN = 0.1  # logits; as sections.GAPS bins


def gaps_chart(gate: Gate) -> str:
    """Histogram of the stock model's logit gap where a configuration chose another token, a panel for each."""
    by_config = [(name, list(group)) for name, group in groupby(gate.gaps, key=lambda r: str(r["config"]))]
    if not by_config:
        return ""
    bounds = [c["large_gap_logits"] for c in gate.configs if c["large_gap_logits"] is not None]
    widest = max((r["bin"] + 1) * _BIN for r in gate.gaps)
    edge = max([widest, *(1.1 * b for b in bounds)])
    order = [c["config"] for c in gate.configs]
    with mpl.rc_context(STYLE):
        across = min(2, len(by_config))
        down = -(-len(by_config) // across)
        figure = Figure(figsize=(2 * PANEL_WIDTH, 1.6 * down + 0.3))
        axes = figure.subplots(down, across, squeeze=False, sharex=True)
        for ax, (config, found) in zip(axes.flat, by_config, strict=False):
            color = color_of(order.index(config))
            for place, row in enumerate(found):
                (bar,) = ax.bar(
                    row["bin"] * _BIN,
                    row["positions"],
                    _BIN,
                    align="edge",
                    color=color,
                    edgecolor=INK,
                    linewidth=0.4,
                )
                if place == 0:
                    bar.set_gid(gid(config))
            for bound in bounds[:1]:
                ax.axvline(bound, color=INK, linestyle="--", linewidth=1, gid=gid("large gap of the policy"))
            ax.set_xlim(0, edge)
            ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            count = sum(r["positions"] for r in found)
            ax.set_title(f"{config}: {count} position{'' if count == 1 else 's'}", loc="left")
        for ax in list(axes.flat)[len(by_config) :]:
            ax.set_axis_off()
        figure.supxlabel("gap of the stock model's logits", fontsize=9)
        figure.supylabel("positions", fontsize=9)
        return svg_of(figure, f"Logit gaps where a configuration disagrees, {gate.place}")


def drift_chart(gate: Gate) -> str:
    """Mean relative error of the hidden state after each layer, a line for each configuration."""
    drift = [r for r in gate.drift if r["mean_drift"]]
    if not drift:
        return ""
    with mpl.rc_context(STYLE):
        figure, ax = _one_panel()
        for place, (config, group) in enumerate(groupby(drift, key=lambda r: str(r["config"]))):
            found = list(group)
            _line(ax, place, config, [r["layer"] for r in found], [r["mean_drift"] for r in found])
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        ax.set_xlabel("layer")
        ax.set_ylabel("mean relative error")
        _legend(figure, ax)
        return svg_of(figure, f"Drift over the layers, {gate.place}")


def decode_chart(decode: Decode) -> str:
    """Tokens a second of each configuration, with the least and the greatest of the repeats."""
    timed = [c for c in decode.configs if c["tokens_per_s"] is not None]
    if not timed:
        return ""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL_WIDTH, 0.8 + 0.34 * len(timed)))
        ax = figure.add_subplot()
        for place, row in enumerate(timed):
            value, low, high = row["tokens_per_s"], row["least_tokens_per_s"], row["most_tokens_per_s"]
            ax.barh(place, value, 0.62, color=color_of(1 if row["graph"] else 0), gid=gid(str(row["config"])))
            ax.plot([low, high], [place, place], color=INK, linewidth=1.5, marker="|", markersize=7)
        ax.set_yticks(range(len(timed)), [f"{r['config']}{' (graph)' if r['graph'] else ''}" for r in timed])
        ax.set_ylim(len(timed) - 0.5, -0.5)
        ax.set_xlabel("tokens/s at concurrency 1")
        return svg_of(figure, f"Decode inside the model, {decode.place}")


def serving_chart(served: Served) -> str:
    """Output tokens a second against concurrency, a line for each engine, with its interval over repeats."""
    loads = [r for r in served.entrants if r["output_tokens_per_s"] and r["max_concurrency"]]
    if not loads:
        return ""
    with mpl.rc_context(STYLE):
        figure, ax = _one_panel()
        for place, (entrant, group) in enumerate(groupby(loads, key=lambda r: str(r["entrant"]))):
            found = list(group)
            at = [r["max_concurrency"] for r in found]
            _line(ax, place, entrant, at, [r["output_tokens_per_s"] for r in found])
            ends = [(r["least_tokens_per_s"], r["most_tokens_per_s"]) for r in found]
            for x, (low, high) in zip(at, ends, strict=True):
                if low is not None:
                    ax.plot([x, x], [low, high], color=color_of(place))
        ticks = sorted({r["max_concurrency"] for r in loads})
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.minorticks_off()
        ax.set_xlabel("concurrent requests")
        ax.set_ylabel("output tokens/s")
        _legend(figure, ax)
        return svg_of(figure, f"Served engines, {served.place}")


def _one_panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(2 * PANEL_WIDTH, PANEL_HEIGHT + 0.4))
    return figure, figure.add_subplot()


def _line(ax: Axes, place: int, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    ax.plot(
        x,
        y,
        color=color_of(place),
        marker=marker_of(place),
        markersize=4,
        linewidth=1.3,
        label=name,
        gid=gid(name),
    )


def _legend(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(4, len(handles)))
