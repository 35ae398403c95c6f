"""What every chart shares: placeholders for colours, the style, and the way from a figure to an ``<svg>`` element.

Colours are drawn with placeholders and replaced by CSS variables, so that one picture serves a light and a
dark page; text stays text, in the page's font. Each series carries a ``<title>`` (its name, read by assistive
technology and shown on hover).
"""

from __future__ import annotations

import hashlib
import io
import re
from html import escape
from typing import Any

from matplotlib.figure import Figure

# Placeholders that no style of matplotlib uses, and what the page has in their place.
SERIES = [f"#a1b20{i}" for i in range(8)]
INK, FAINT = "#a1b210", "#a1b211"
_VARIABLES = {c: f"var(--series-{i})" for i, c in enumerate(SERIES)} | {
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


def color_of(place: int) -> str:
    """Return the colour of the series at ``place``, counted from 0."""
    return SERIES[place % len(SERIES)]


def marker_of(place: int) -> str:
    """Return its marker: where the colours begin again, each comes with another one."""
    return MARKERS[(place + place // len(SERIES)) % len(MARKERS)]


def gid(name: str) -> str:
    """Return the mark of a series that becomes its ``<title>``."""
    return f"series:{name}"


def svg_of(figure: Figure, title: str) -> str:
    """Return the figure as an ``<svg>`` element: no fixed size, colours as CSS variables, few digits.

    Args:
        figure: What was drawn.
        title: What it shows, of which part of the lake: no other chart of the page has the same.
    """
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)  # the page's
    svg = re.sub(r' (?:d|x|y|transform)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="series:([^"]*)">', r"<g><title>\1</title>", svg)
    # Short names, unlike those of any other chart: a chart refers to a marker or a clip hundreds of times.
    prefix = hashlib.sha256(title.encode()).hexdigest()[:6]
    kept = dict.fromkeys(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', svg))
    short = {name: f"{prefix}-{place}" for place, name in enumerate(kept)}
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{short[m[1]]}"' if m[1] in short else "", svg)
    svg = re.sub(r'(?:xlink:)?(href="#|url\(#)([^")]+)', lambda m: f"{m[1]}{short[m[2]]}", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    head = (
        f'<svg class="chart" role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}" '
        'xmlns="http://www.w3.org/2000/svg">'
    )
    return re.sub(r"<svg[^>]*>", head, svg, count=1)
