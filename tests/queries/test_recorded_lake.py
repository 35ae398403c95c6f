"""The recorded lake, altered the way a careless or a dishonest person would: nobody may win by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from checks.gate import EXIT_CODES, judge_rule
from checks.model import Status
from checks.session import Session
from checks.suites import rule_of
from tests.queries.conftest import Database, Row
from tests.queries.published import point, write_points
from warehouse.build import build
from warehouse.schema import schema_of

PROJECT = Path(__file__).parents[2]
RECORDED = PROJECT / "data"
CELLS = "FROM winners WHERE device = 'NVIDIA H200'"
ONE = f"{CELLS} AND cell_id = ? AND timing_mode = 'graph'"
# int8, 128 tokens, microseconds: the cell whose "win" was published after a race against one of two rivals.
PUBLISHED_CELL = {"dispatch": 1628.0, "sglang": 2111.0, "vllm": 1232.0}

Alter = Callable[[pa.Table], pa.Table]


def lake_of(database: Database) -> Path:
    return database.path.parent / "lake"


def alter(lake: Path, table: str, change: Alter) -> None:
    """Rewrite every file of ``table``; a change that changes nothing is a mistake of the test."""
    changed = False
    for path in sorted((lake / table).iterdir()):
        before = pq.read_table(path, schema=schema_of(table))
        after = change(before)
        changed |= not after.equals(before)
        pq.write_table(after.cast(schema_of(table)), path)
    assert changed, f"nothing of {table} was altered"


def where(table: pa.Table, **columns: str) -> pa.ChunkedArray:
    """Return the mask [rows] of the rows that have these values."""
    mask = pc.is_valid(table.column("run_id"))
    for name, value in columns.items():
        mask = pc.and_(mask, pc.fill_null(pc.equal(table.column(name), value), False))
    return mask


def without(**columns: str) -> Alter:
    """Return the change that removes the rows with these values."""
    return lambda table: table.filter(pc.invert(where(table, **columns)))


def setting(values: dict[str, Any], **columns: str) -> Alter:
    """Return the change that gives the rows with these values other ones."""

    def change(table: pa.Table) -> pa.Table:
        mask = where(table, **columns)
        for name, value in values.items():
            place, kind = table.schema.get_field_index(name), table.schema.field(name)
            new = pc.if_else(mask, pa.scalar(value, kind.type), table.column(name))
            table = table.set_column(place, kind, new)
        return table

    return change


@dataclass(frozen=True)
class Target:
    """A cell that the recorded lake decides: who wins it, and the nearest rival."""

    cell_id: str
    winner: str
    rival: str


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Database]:
    """Return a function that copies the recorded lake, alters tables of the copy, and builds it."""

    def make(*changes: tuple[str, Alter], points: list[dict[str, Any]] | None = None) -> Database:
        folder = tmp_path_factory.mktemp("altered")
        lake = Path(shutil.copytree(RECORDED, folder / "lake"))
        for table, change in changes:
            alter(lake, table, change)
        if points:
            write_points(lake, points)
        build([lake], folder / "warehouse.db")
        return Database(folder / "warehouse.db")

    return make


@pytest.fixture(scope="module")
def recorded(altered: Callable[..., Database]) -> Database:
    """The lake as it is, with the published founding cell beside it."""
    rows = [
        point(name, value, row=i, evidence="published", cell_key='{"precision": "int8", "tokens": 128}')
        for i, (name, value) in enumerate(PUBLISHED_CELL.items())
    ]
    return altered(points=rows)


@pytest.fixture(scope="module")
def target(recorded: Database) -> Target:
    """The clearest win in graph mode over all rivals."""
    row = recorded.rows(
        f"{CELLS} AND timing_mode = 'graph' AND outcome = 'win' AND wins_over_all ORDER BY margin_lo DESC, cell_id"
    )[0]
    return Target(row["cell_id"], row["winner"], row["runner_up"])


def others(database: Database, cell_id: str) -> list[Row]:
    return database.rows(
        f"SELECT cell_id, timing_mode, outcome_text {CELLS} AND cell_id <> ? ORDER BY ALL", cell_id
    )


def test_the_recorded_lake_itself_passes(recorded: Database) -> None:
    with Session(recorded.path, [lake_of(recorded)], None, recorded.path.parent) as session:
        result = session.gate(("integrity", "race"))
    assert (result.exit_code, [f.line for r in result.errors for f in r.findings]) == (0, [])
    assert recorded.rows(f"{CELLS} AND outcome = 'incomplete'") == []


def test_a_rival_without_samples_leaves_the_cell_incomplete(
    altered: Callable[..., Database], recorded: Database, target: Target
) -> None:
    database = altered(("samples", without(cell_id=target.cell_id, contestant=target.rival)))
    rows = database.rows(f"{CELLS} AND cell_id = ?", target.cell_id)
    assert [(r["outcome"], r["winner"], r["missing"]) for r in rows] == [
        ("incomplete", None, f"{target.rival} (no-samples)")
    ] * len(rows)
    assert others(database, target.cell_id) == others(recorded, target.cell_id)
    run = subprocess.run(
        [sys.executable, "-m", "checks.cli", "run", "--db", str(database.path), "--suite", "race"],
        cwd=database.path.parent,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == EXIT_CODES[Status.FALSE], run.stderr
    assert (
        f"NVIDIA H200 {target.cell_id} graph is incomplete: missing {target.rival} (no-samples)" in run.stdout
    )


def test_a_rival_with_some_rounds_only_leaves_the_cell_incomplete(
    altered: Callable[..., Database], target: Target
) -> None:
    def half(table: pa.Table) -> pa.Table:
        rival = where(table, cell_id=target.cell_id, contestant=target.rival)
        return table.filter(pc.invert(pc.and_(rival, pc.less(table.column("round"), 6))))

    row = altered(("samples", half)).row(ONE, target.cell_id)
    assert (row["outcome"], row["winner"]) == ("incomplete", None)
    assert row["missing"] == f"{target.rival} (too-few-rounds)"


WRONG = {
    "status": "refused",
    "reason_code": "wrong-output",
    "fault": "contestant",
    "detail": "relative error 0.4",
}


def test_a_rival_with_a_wrong_output_is_refused_and_stands_beside_the_win(
    altered: Callable[..., Database], target: Target
) -> None:
    cell = {"cell_id": target.cell_id, "contestant": target.rival}
    row = altered(("verdicts", setting(WRONG, **cell)), ("samples", without(**cell))).row(ONE, target.cell_id)
    assert row["refused"] == f"{target.rival} (wrong-output)"
    assert (row["winner"], row["wins_over_all"]) == (target.winner, False)
    assert row["outcome_text"].endswith(f", refused: {target.rival} (wrong-output)")


def test_a_wrong_output_cannot_win_though_its_times_are_in_the_lake(
    altered: Callable[..., Database], recorded: Database, target: Target
) -> None:
    # One verdict of one session is enough: the others passed.
    cell = {"cell_id": target.cell_id, "contestant": target.winner, "stage": "timed-output"}

    def once(table: pa.Table) -> pa.Table:
        last = pc.max(table.filter(where(table, **cell)).column("session"))
        changed = setting(WRONG, **cell)(table)
        mask = pc.and_(where(table, **cell), pc.equal(table.column("session"), last))
        return pa.concat_tables([table.filter(pc.invert(mask)), changed.filter(mask)])

    database = altered(("verdicts", once))
    row = database.row(ONE, target.cell_id)
    assert f"{target.winner} (wrong-output)" in row["refused"]
    assert row["winner"] != target.winner
    assert target.winner not in (row["measured"] or "").split(", ")
    status = database.rows(
        "SELECT DISTINCT status, samples > 0 AS has_samples FROM contestant_status "
        "WHERE cell_id = ? AND contestant = ? AND timing_mode = 'graph'",
        target.cell_id,
        target.winner,
    )
    assert status == [{"status": "refused", "has_samples": True}]
    assert others(database, target.cell_id) == others(recorded, target.cell_id)


def test_one_implementation_under_two_names_has_no_winner(
    altered: Callable[..., Database], recorded: Database
) -> None:
    (control,) = recorded.rows(
        "SELECT DISTINCT contestant, control_of FROM rosters WHERE role = 'control' AND control_of IS NOT NULL"
    )

    def renamed(table: pa.Table) -> pa.Table:
        """Give the control's rows a second time, as those of vllm."""
        twin = table.filter(where(table, contestant=control["contestant"]))
        name = pa.array(["vllm"] * len(twin), pa.string())
        twin = twin.set_column(
            twin.schema.get_field_index("contestant"), table.schema.field("contestant"), name
        )
        return pa.concat_tables([without(contestant="vllm")(table), twin])

    database = altered(("samples", renamed), ("verdicts", renamed))
    outcomes = database.rows(f"SELECT outcome, winner, count(*) AS cells {CELLS} GROUP BY ALL ORDER BY ALL")
    assert {row["outcome"] for row in outcomes} <= {"tie", "inconclusive"}
    assert {row["winner"] for row in outcomes} == {None}
    assert sum(row["cells"] for row in outcomes) == len(recorded.rows(CELLS))


def test_a_rival_that_was_not_installed_leaves_every_cell_incomplete(
    altered: Callable[..., Database], recorded: Database, target: Target
) -> None:
    absent = {
        "status": "refused",
        "reason_code": "not-installed",
        "fault": "environment",
        "detail": "no such package",
    }
    rival = {"contestant": target.rival}
    database = altered(("verdicts", setting(absent, **rival)), ("samples", without(**rival)))
    assert_incomplete(database, recorded, target.rival, "not-installed")


def test_a_rival_that_was_left_out_leaves_every_cell_incomplete(
    altered: Callable[..., Database], recorded: Database, target: Target
) -> None:
    rival = {"contestant": target.rival}
    database = altered(
        ("rosters", setting({"entered": False}, **rival)),
        *((table, without(**rival)) for table in ("samples", "verdicts", "workers")),
    )
    assert_incomplete(database, recorded, target.rival, "left-out")


def test_a_roster_that_forgets_a_rival_leaves_every_cell_incomplete(
    altered: Callable[..., Database], recorded: Database, target: Target
) -> None:
    database = altered(
        *(
            (table, without(contestant=target.rival))
            for table in ("rosters", "samples", "verdicts", "workers")
        )
    )
    assert_incomplete(database, recorded, target.rival, "left-out")


def assert_incomplete(database: Database, recorded: Database, rival: str, code: str) -> None:
    """Check that each cell that asks for ``rival`` is incomplete by ``code``, and that the gate is closed."""
    asked = recorded.rows(f"SELECT cell_id {CELLS} AND list_contains(string_split(required, ', '), ?)", rival)
    rows = database.rows(f"{CELLS} AND outcome = 'incomplete'")
    assert len(rows) == len(asked) > 0
    assert {(row["winner"], row["missing"]) for row in rows} == {(None, f"{rival} ({code})")}
    with Session(database.path, [lake_of(database)], None, database.path.parent) as session:
        result = judge_rule(session.con, rule_of("race.cells-complete"), session.validate)
    assert result.status is Status.FALSE


def test_the_published_cell_is_compared_and_is_never_a_win(recorded: Database) -> None:
    """ "dispatch wins at int8, 128 tokens" is contradicted, "dispatch faster than sglang" is supported."""
    cell = recorded.row("FROM points_cells")
    assert (cell["faster"], cell["outcome_text"]) == (
        "vllm",
        "vllm faster over dispatch, sglang (point figures)",
    )
    pair = recorded.row("FROM points_pairs WHERE contestant = 'dispatch' AND rival = 'sglang'")
    assert (pair["faster"], pair["speedup_vs_rival"]) == ("dispatch", pytest.approx(2111 / 1628))
    assert recorded.rows("FROM winners WHERE precision = 'int8' OR run_id IS NULL") == []
    assert recorded.rows("SELECT DISTINCT outcome FROM points_pairs WHERE outcome = 'win'") == []


def test_the_command_prints_every_cell_from_any_folder(recorded: Database) -> None:
    command = shutil.which("duckdb", path=str(Path(sys.executable).parent)) or shutil.which("duckdb")
    assert command, "the duckdb command belongs to the dependencies"
    run = subprocess.run(
        [command, "-readonly", "-json", str(recorded.path)],
        input=(PROJECT / "queries" / "winners.sql").read_text(encoding="utf-8"),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = json.loads(run.stdout)
    identity = [
        (r["device"], r["workload"], r["precision"], r["routing"], r["tokens"], r["mode"]) for r in rows
    ]
    assert identity == sorted(set(identity))
    expected = recorded.rows(f"SELECT cell_id, timing_mode, outcome_text, winner, runner_up, margin {CELLS}")
    told = {(f"{r['workload']}/{r['precision']}/{r['routing']}/{r['tokens']}", r["mode"]): r for r in rows}
    assert len(told) == len(expected) == 84
    for row in expected:
        line = told[row["cell_id"], row["timing_mode"]]
        assert (line["outcome_text"], line["winner"]) == (row["outcome_text"], row["winner"])
        assert line["runner_up"] == row["runner_up"]
        assert line["margin"] == pytest.approx(row["margin"], abs=6e-4)
        assert line["measured"]


def test_a_mode_over_the_noise_bound_supports_no_comparison_by_any_macro(recorded: Database) -> None:
    noise = recorded.row("FROM noise_floors WHERE timing_mode = 'eager'")
    assert noise["noise_floor"] > 0.05, "the recorded eager mode is the noisy one"
    assert recorded.rows("SELECT DISTINCT decisive FROM comparable_cells WHERE timing_mode = 'eager'") == [
        {"decisive": False}
    ]
    count = "SELECT beats_count('dispatch', 'sglang', '*/*/*/*', mode := 'eager') AS n"
    assert recorded.row(count)["n"] is None, "nothing was decided, which is not a count of none"
    assert recorded.row(count.replace("eager", "graph"))["n"] == 42
    cell = "'deepseek-moe-16b/bf16/uniform/128'"
    for macro in ("speedup", "ratio", "percent_faster"):
        printed = f"SELECT {macro}('dispatch', 'vllm', {cell}, mode := 'eager') AS n"
        assert recorded.row(printed)["n"] is None, macro
        assert recorded.row(printed.replace("eager", "graph"))["n"] is not None, macro
