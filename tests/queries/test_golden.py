"""Each query that people run, over one tiny lake, as the ``duckdb`` command prints it.

``UPDATE_GOLDEN=1 python -m pytest tests/queries/test_golden.py`` rewrites the files; read the difference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from queries import statement
from tests.evidence import write_decode, write_gate
from tests.lakes import Entrant, Race, Refusal, run_id, trio, write_ceilings
from tests.queries.conftest import Database, MakeDatabase
from tests.queries.published import point, write_points
from tests.queries.served import RUN, repeats, write_served

GOLDEN = Path(__file__).parent / "golden"
QUERIES = sorted((Path(__file__).parents[2] / "queries").glob("*.sql"))
# What reads the views and is no view itself (the macros of claims) stands in the same folder, after them.
VIEWS = [path for path in sorted((QUERIES[0].parent / "views").glob("*.sql")) if "_macros" not in path.stem]
CELLS = ("deepseek-moe-16b/bf16/uniform/16", "deepseek-moe-16b/bf16/zipf/128")

DECODE = {"stock_eager_bf16": 250.0, "dispatch_bf16": 400.0, "fused_graph_int8_w8a8": 1000.0}


@pytest.fixture(scope="module")
def db(make_db: MakeDatabase) -> Database:
    """Return two runs of two cells: one decided, one with a rival refused, and an earlier incomplete run.

    Beside them three cells of imported figures, of which one entrant has one alone.
    """
    early = Race(
        run_id=run_id(0),
        entrants=trio(90.0, 100.0, 110.0),
        cells=CELLS,
        missing=frozenset({("vllm", CELLS[0])}),
        seed=1,
    )
    late = Race(
        run_id=run_id(1),
        cells=CELLS,
        modes=("eager", "graph"),
        entrants=(*trio(90.0, 100.0, 110.0), Entrant("torch-grouped", "torch", 85.0, role="informational")),
        refusals=(
            Refusal("sglang", "wrong-output", "contestant", cell_id=CELLS[1]),
            Refusal("vllm", "worker-timeout", "environment", cell_id=CELLS[0], timing_mode="eager"),
        ),
        cell_facts={"weight_bytes": 200_000_000, "io_bytes": 500_000, "flops": 2_000_000_000},
    )
    figures = [
        point(name, time, row=row, cell_key=f'{{"tokens": {tokens}}}', device="NVIDIA H100", version=version)
        for row, (name, version, tokens, time) in enumerate(
            [
                ("sglang", "0.5", 1, 20.0),
                ("sglang", "0.5", 16, 30.0),
                ("vllm", "0.9", 1, 10.0),
                ("vllm", "0.9", 16, 40.0),
                ("vllm", "0.9", 64, 50.0),
            ]
        )
    ]

    def then(lake: Path) -> None:
        write_ceilings(lake, run=run_id(2))
        write_points(lake, figures)
        write_decode(lake, DECODE)
        write_served(
            lake,
            [*repeats("vllm", 10.0, 10.1, 10.2), *repeats("sglang", 12.0, 12.1, 12.2)],
            {"run_id": RUN, "basis": "rate", "rate_usd_per_h": 4.0, "source": "test"},
        )
        write_gate(lake, disagreements={"auto_bf16": 7, "auto_int8_w8a8": 20}, voided=("naive_bf16",))

    return make_db(early, late, then=then)


@pytest.fixture(scope="module")
def empty(make_db: MakeDatabase) -> Database:
    return make_db()


def command() -> str:
    beside_python = Path(sys.executable).parent / "duckdb"
    found = str(beside_python) if beside_python.exists() else shutil.which("duckdb")
    if found is None:
        pytest.skip("the duckdb command is not installed")
    return found


def ask(db: Database, query: Path) -> str:
    """Run ``query`` the way the documents say, from the root folder."""
    done = subprocess.run(
        [command(), "-readonly", "-csv", "-nullvalue", "NULL", str(db.path)],
        input=query.read_text(encoding="utf-8"),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_the_command_prints_the_golden_rows(db: Database, query: Path) -> None:
    printed = ask(db, query)
    golden = GOLDEN / f"{query.stem}.csv"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(printed, encoding="utf-8")
    assert printed == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_python_gives_the_rows_of_the_command(db: Database, query: Path) -> None:
    rows = db.rows(statement(query.stem))
    assert len(rows) == len(ask(db, query).splitlines()) - 1 > 0


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_an_empty_lake_gives_no_rows_and_no_error(empty: Database, query: Path) -> None:
    assert empty.rows(statement(query.stem)) == []
    assert len(ask(empty, query).splitlines()) <= 1  # a header at most


def test_every_view_is_readable_and_empty_over_an_empty_lake(empty: Database) -> None:
    views = [path.stem[3:] for path in VIEWS]
    assert len(views) > 15
    counts = {view: empty.row(f"SELECT count(*) AS n FROM {view}")["n"] for view in views}
    assert {view for view, count in counts.items() if count} == {"goals"}


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_every_query_orders_its_rows(query: Path) -> None:
    text = statement(query.stem)
    assert "ORDER BY" in text
    assert len(duckdb.extract_statements(text)) == 1


def test_the_command_prints_every_row_without_an_option(db: Database) -> None:
    done = subprocess.run(
        [command(), "-readonly", str(db.path)],
        input=(QUERIES[0].parent / "ratios.sql").read_text(encoding="utf-8"),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = len(ask(db, QUERIES[0].parent / "ratios.sql").splitlines()) - 1
    assert rows > 40, "the command cuts at forty rows"
    assert sum(line.startswith("│") for line in done.stdout.splitlines()) >= rows


@pytest.mark.parametrize("view", VIEWS, ids=lambda path: path.stem)
def test_a_view_file_is_one_statement_that_creates_the_view_of_its_name(view: Path) -> None:
    text = view.read_text(encoding="utf-8")
    assert len(duckdb.extract_statements(text)) == 1
    assert f"\nCREATE VIEW {view.stem[3:]} AS\n" in text
