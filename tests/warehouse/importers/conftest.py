"""What the tests of the importers share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from warehouse.cli import app
from warehouse.lake import scan

Rows = list[dict[str, Any]]


class Imports:
    """A folder with files to import, a lake beside it, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"
        self.folder.mkdir()
        self.lake = folder / "lake"

    def write(self, name: str, content: Any) -> Path:
        """Write a file: bytes and text as they are, anything else as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def run(self, *arguments: object) -> Result:
        """Run ``warehouse import`` on arguments; an exception that is no exit fails the test."""
        result = CliRunner().invoke(app, ["import", *map(str, arguments), "--lake", str(self.lake)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def rows(self, table: str) -> Rows:
        """All rows of a table of the lake, in the order in which they were written."""
        return [row for path in scan(self.lake).files(table) for row in pq.read_table(path).to_pylist()]

    def extra_of(self, number: int = 0) -> dict[str, Any]:
        """``extra_json`` of a serving run."""
        found: dict[str, Any] = json.loads(self.rows("serving_runs")[number]["extra_json"])
        return found

    def files(self) -> list[Path]:
        """Every file of the lake."""
        return [entry.path for entry in scan(self.lake).entries]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """An empty folder of results and an empty lake."""
    return Imports(tmp_path)


@pytest.fixture
def imported(imports: Imports) -> Callable[..., Rows]:
    """Return a function that imports one file, which must be whole, and returns its serving runs."""

    def bring(name: str, content: Any, *options: object) -> Rows:
        result = imports.run(imports.write(name, content), *options)
        assert result.exit_code == 0, result.output
        return imports.rows("serving_runs")

    return bring
