"""Lakes become databases, and databases answer, with the same build that people use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.lakes import Race, write
from warehouse.build import build

Row = dict[str, Any]


@dataclass(frozen=True)
class Database:
    """A built warehouse, opened read-only for each question."""

    path: Path

    def rows(self, sql: str, *parameters: object) -> list[Row]:
        """Return the result of ``sql`` as dictionaries."""
        with duckdb.connect(str(self.path), read_only=True) as connection:
            cursor = connection.execute(sql, list(parameters))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str, *parameters: object) -> Row:
        """Return the only row of ``sql``."""
        (row,) = self.rows(sql, *parameters)
        return row


MakeDatabase = Callable[..., Database]


@pytest.fixture(scope="module")
def make_db(tmp_path_factory: pytest.TempPathFactory) -> MakeDatabase:
    """Return a function that writes races into a new lake, lets ``then`` add to it, and builds it."""

    def make(*races: Race, then: Callable[[Path], object] | None = None) -> Database:
        lake = write(tmp_path_factory.mktemp("lake"), *races)
        if then is not None:
            then(lake)
        db = tmp_path_factory.mktemp("db") / "warehouse.db"
        build([lake], db)
        return Database(db)

    return make
