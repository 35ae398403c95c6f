"""One small lake for all tests of claims, and a function that judges a piece of Markdown over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks.claims.judge import Judge
from checks.claims.lexicon import Lexicon
from checks.claims.model import Claim
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.beside import make as make_beside
from tests.checks.claims.world import Oracle, make

PROJECT = Path(__file__).parents[3]
Judged = Callable[[str], list[Claim]]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Lake and database."""
    return make(tmp_path_factory.mktemp("claims"))


@pytest.fixture(scope="session")
def oracle(world: tuple[Path, Path]) -> Oracle:
    """The truth about the lake, from its raw samples."""
    return Oracle(world[0])


@pytest.fixture(scope="session")
def sandbox(world: tuple[Path, Path]) -> Iterator[Sandbox]:
    """The database, opened for questions."""
    sandbox = Sandbox(world[1], seconds=2)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def scanner(sandbox: Sandbox) -> Scanner:
    """A scanner that knows the project's policy."""
    return Scanner(open_judge(PROJECT, sandbox))


@pytest.fixture(scope="session")
def judged(scanner: Scanner) -> Judged:
    """Return the claims of a Markdown text."""
    return lambda text: list(scanner.scan("doc.md", text))


@pytest.fixture(scope="session")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a gate, decode steps, served engines and a price beside a small race."""
    folder = tmp_path_factory.mktemp("beside")
    make_beside(folder)
    return folder / "warehouse.db"


def over(db: Path, text: str, *, policy: str | None = None) -> list[Claim]:
    """Return the claims of ``text`` over another database."""
    sandbox = Sandbox(db)
    try:
        return list(Scanner(Judge(sandbox, Lexicon.of(sandbox.rows), policy)).scan("doc.md", text))
    finally:
        sandbox.close()
