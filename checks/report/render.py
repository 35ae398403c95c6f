"""Fill the templates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import jinja2

from checks.report import charts, section_charts, sections


def render(kind: str, context: dict[str, Any]) -> str:
    """Return the report as ``md`` or ``html``; values are escaped for the kind."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("checks.report"),
        autoescape=kind == "html",  # noqa: S701 - Markdown cells are escaped by table_cell
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "cell": table_cell, "fixed": fixed}
    environment.globals |= {"charts": charts, "section_charts": section_charts, "columns": sections}
    return environment.get_template(f"report.{kind}.j2").render(context)


def number(value: Any) -> str:
    """Return a value as a table shows it: four significant digits, a dash for unknown, times in UTC."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"  # noqa: PLR2004
        case int():
            return f"{value}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S} UTC"
        case _:
            return str(value)


def fixed(value: float | None, places: int = 3) -> str:
    """Return ``value`` with a fixed number of decimals, a dash for unknown."""
    return "-" if value is None else f"{value:.{places}f}"


def table_cell(value: Any) -> str:
    """Return a value that stands inside one cell of a Markdown table."""
    text = " ".join(number(value).split())
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
