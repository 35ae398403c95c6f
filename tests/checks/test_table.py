"""The table of outcomes: it says what the lake says, and the gate that judges documents takes every cell of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import duckdb
import pytest
import typer.testing

from checks.claims.model import Verdict
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from checks.errors import ChecksError
from checks.table import main, table
from tests.checks.claims.world import make

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dispatch wins at 1 and 16 tokens, vLLM at 128, and at 512 they are level."""
    return make(tmp_path_factory.mktemp("table"))[1]


def words(text: str) -> dict[tuple[str, str], list[str]]:
    """The cells of the table without their comments, by tokens and routing."""
    rows = [line.strip("| ").split(" | ") for line in re.sub("<!--.*?-->", "", text).splitlines()[4:]]
    return {(row[0], row[1]): row[2:] for row in rows}


@pytest.mark.parametrize(("entrant", "mode"), [("dispatch", "graph"), ("sglang", "eager")])
def test_every_cell_is_bound_and_holds(db: Path, entrant: str, mode: str) -> None:
    sandbox = Sandbox(db)
    try:
        claims = list(Scanner(open_judge(PROJECT, sandbox)).scan("table.md", table(db, entrant, mode, None)))
    finally:
        sandbox.close()
    assert len(claims) >= 16
    assert [(c.sentence, c.reason) for c in claims if c.verdict is not Verdict.HOLDS] == []


def test_a_cell_says_the_outcome_and_against_whom(db: Path) -> None:
    cells = words(table(db, "dispatch", "graph", None))
    for routing in ("uniform", "zipf"):
        assert all(re.fullmatch(r"1\.1[67]x faster than vllm", c) for c in cells["1", routing])
        assert all(re.fullmatch(r"1\.1[89]x slower than vllm", c) for c in cells["128", routing])
        assert cells["512", routing] == ["level with vllm"] * 2
    behind = words(table(db, "sglang", "graph", None))["512", "uniform"]
    assert all(re.fullmatch(r"1\.3\dx slower than (vllm|dispatch)", c) for c in behind)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--db", "nowhere.db"], "there is no warehouse at nowhere.db"),
        (["--device", "NVIDIA B300"], "has measurements of Test GPU; name one"),
        (["--mode", "replay"], "has no cell in replay mode"),
        (["--entrant", "nobody"], "has no ratio of nobody to a required rival"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(db: Path, arguments: list[str], sentence: str) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    given = arguments if "--db" in arguments else ["--db", str(db), *arguments]
    result = typer.testing.CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert sentence in result.output


def test_a_device_is_named_where_the_lake_has_several(db: Path, tmp_path: Path) -> None:
    both = Path(shutil.copy(db, tmp_path / "both.db"))
    with duckdb.connect(str(both)) as con:
        con.execute("INSERT INTO winners SELECT * REPLACE ('Other GPU' AS device) FROM winners")
    with pytest.raises(ChecksError, match="Other GPU, Test GPU; name one"):
        table(both, "dispatch", "graph", None)
    assert table(both, "dispatch", "graph", "Test GPU") == table(db, "dispatch", "graph", None)


def test_a_cell_without_an_outcome_has_no_number(db: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copy(db, tmp_path / "changed.db"))
    with duckdb.connect(str(changed)) as con:
        con.execute("UPDATE winners SET outcome = 'incomplete', winner = NULL WHERE tokens = 1")
        con.execute(
            "UPDATE winners SET wins_over_all = FALSE, refused = 'sglang (wrong-output)' WHERE tokens = 16"
        )
    cells = words(table(changed, "dispatch", "graph", None))
    assert cells["1", "uniform"] == ["incomplete"] * 2
    assert all(c.endswith("faster than vllm, refused: sglang (wrong-output)") for c in cells["16", "zipf"])
