"""A warehouse that passes the gate, copies of it to break, and one validator for all tests."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warehouse.append
from checks import gate
from checks.judge import Validate, make_validator
from checks.model import RuleResult
from checks.session import Session
from checks.suites import rule_of
from tests import lakes
from tests.lakes import Entrant, Race, control
from warehouse.build import build

CELLS = ("deepseek-moe-16b/bf16/uniform/128", "deepseek-moe-16b/int8_w8a8/zipf/16")
ENTRANTS = (
    Entrant("dispatch", "dispatch", 95.0),
    Entrant("vllm", "vllm", 100.0),
    Entrant("sglang", "sglang", 104.0),
    control(time_us=95.0),
)

Break = Callable[..., RuleResult]


@pytest.fixture(scope="session")
def validate() -> Validate:
    """Great Expectations, imported once."""
    return make_validator()


def write_race(lake: Path, *races: Race) -> Path:
    """Append ``races`` with the inputs' hashes that a referee and its workers would report."""

    def append(where: Path, table: str, rows: Any) -> Path | None:
        if table in {"cells", "verdicts"}:
            rows = [{"inputs_sha256": hashlib.sha256(r["cell_id"].encode()).hexdigest(), **r} for r in rows]
        return original(where, table, rows)

    original = warehouse.append.append
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lakes, "append", append)
        return lakes.write(lake, *races)


def build_race(folder: Path, *races: Race) -> Path:
    """Write ``races`` into ``folder/lake``, build ``folder/warehouse.db`` and return its path."""
    write_race(folder / "lake", *races)
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake of a complete race, and its warehouse."""
    folder = tmp_path_factory.mktemp("good")
    build_race(folder, Race(entrants=ENTRANTS, cells=CELLS))
    return folder


@pytest.fixture
def broken_rule(good: Path, tmp_path: Path, validate: Validate) -> Break:
    """Return a function that runs SQL on a copy of the good warehouse and judges one rule there."""

    def judge(rule_id: str, *statements: str) -> RuleResult:
        db = Path(shutil.copy(good / "warehouse.db", tmp_path / "copy.db"))
        with duckdb.connect(str(db)) as con:
            for statement in statements:
                con.execute(statement)
        with Session(db, [good / "lake"], None, tmp_path) as session:
            return gate.judge_rule(session.con, rule_of(rule_id), validate)

    return judge


@pytest.fixture
def in_good(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the good folder as the current folder; its warehouse names the lake that it was copied from."""
    folder = shutil.copytree(good, tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder
