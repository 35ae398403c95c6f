"""Published and foreign figures as rows of the lake's ``points``: the founding cell, and small CSV tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from warehouse.append import append

Rows = list[dict[str, Any]]
SCALE_TO_US = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


def founding_cell(phase6: Path) -> Rows:
    """Return the cells that the published comparison gives in full, as ``points`` (times in microseconds)."""
    document = json.loads(phase6.read_text(encoding="utf-8"))
    rows: Rows = []
    for cell in document["race"]["cells_published_in_full"]:
        key = {"workload": "deepseek-moe-16b", "precision": cell["precision"], "tokens": cell["tokens"]}
        for contestant, milliseconds in cell["ms"].items():
            rows.append(
                point(
                    contestant,
                    1e3 * milliseconds,
                    import_id="phase6",
                    row=len(rows),
                    evidence="published",
                    cell_key=json.dumps(key, sort_keys=True),
                    **key,
                )
            )
    return rows


def latency_table(path: Path) -> Rows:
    """Return a CSV ``cell,framework,run,latency_ms`` as ``points``; 'nan' is NULL with a reason."""
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    return [
        point(
            record["framework"],
            None if record["latency_ms"] == "nan" else 1e3 * float(record["latency_ms"]),
            import_id=path.stem,
            row=row,
            cell_key=json.dumps({"cell": record["cell"]}),
            conditions_json=json.dumps({"run": record["run"]}),
            reason="nan" if record["latency_ms"] == "nan" else None,
        )
        for row, record in enumerate(records)
    ]


def unit_table(path: Path) -> Rows:
    """Return a CSV ``cell,framework,value,unit,metric`` as ``points``; a value without a unit is refused."""
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    rows: Rows = []
    for row, record in enumerate(records):
        is_time = record["metric"] == "latency"
        unit = record["unit"]
        value = float(record["value"]) * (SCALE_TO_US.get(unit, 1.0) if is_time else 1.0)
        rows.append(
            point(
                record["framework"],
                value if unit else None,
                import_id=path.stem,
                row=row,
                cell_key=json.dumps({"cell": record["cell"]}),
                metric="time_us" if is_time else "tflops",
                lower_is_better=is_time,
                status="unverified" if unit else "refused",
                reason=None if unit else "no unit",
            )
        )
    return rows


def point(contestant: str, value: float | None, **columns: object) -> dict[str, Any]:
    """Return one row of ``points``: an imported time of ``contestant``'s own house unless told otherwise."""
    return {
        "import_id": "test",
        "row": 0,
        "evidence": "imported",
        "contestant": contestant,
        "house": contestant,
        "metric": "time_us",
        "value": value,
        "lower_is_better": True,
        "status": "unverified",
        **columns,
    }


def write_points(lake: Path, rows: Rows) -> None:
    """Append ``rows`` to the lake's ``points``."""
    append(lake, "points", rows)
