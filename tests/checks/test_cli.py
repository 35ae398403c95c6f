"""The command: its exit codes, what it says, and what it writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

from checks.cli import app
from tests.checks.conftest import CELLS, ENTRANTS, write_race
from tests.lakes import Race, run_id
from warehouse.build import build


def checks(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def change(*statements: str) -> None:
    with duckdb.connect("warehouse.db") as con:
        for statement in statements:
            con.execute(statement)


def test_help_and_list_import_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from checks.cli import app; "
        "[CliRunner().invoke(app, [a]) for a in ('--help', 'list')]; "
        "sys.exit(' '.join({'pandas', 'duckdb', 'great_expectations', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("\n", 1)  # sys.exit of an empty list of names


def test_list_names_every_suite() -> None:
    listed = checks("list")
    assert listed.exit_code == 0
    assert "  race.cells-complete  No cell lacks" in listed.stdout
    assert "race.refused (warning)" in listed.stdout


@pytest.mark.usefixtures("in_good")
class TestRun:
    def test_0_everything_holds(self) -> None:
        done = checks("run")
        assert done.exit_code == 0
        assert done.stdout.splitlines()[-1].startswith(
            "checks: 20 of 20 rules hold, 0 false, 0 could not be judged"
        )

    def test_1_something_is_false(self) -> None:
        change(f"UPDATE winners SET outcome = 'incomplete', missing = 'vllm' WHERE cell_id = '{CELLS[0]}'")
        done = checks("run", "--suite", "race")
        assert done.exit_code == 1
        assert (
            f"FALSE  race.cells-complete  Test GPU {CELLS[0]} graph is incomplete: missing vllm"
            in done.stdout
        )

    def test_3_the_lake_went_on(self) -> None:
        write_race(Path("lake"), Race(entrants=ENTRANTS, cells=CELLS[:1], run_id=run_id(7)))
        done = checks("run", "--suite", "integrity", "--lake", "lake")
        assert done.exit_code == 3
        assert "(it changed since); run `warehouse build`" in done.stdout

    def test_3_a_damaged_file(self) -> None:
        Path("lake/samples/0-killed.parquet").write_bytes(b"PAR1")
        build([Path("lake")], Path("warehouse.db"))
        done = checks("run", "--suite", "integrity")
        assert done.exit_code == 3
        assert "UNJUDGED  integrity.files-readable  samples/0-killed.parquet is" in done.stdout

    def test_3_no_evidence(self) -> None:
        Path("empty").mkdir()
        build([Path("empty")], Path("warehouse.db"))
        done = checks("run", "--lake", "empty")
        assert done.exit_code == 3
        assert "nothing was measured" in done.stdout

    def test_1_and_3_are_both_listed(self) -> None:
        change("UPDATE winners SET rounds = 3", "DELETE FROM noise_floors")
        done = checks("run", "--suite", "race")
        assert done.exit_code == 1
        assert "FALSE  race.enough-rounds" in done.stdout
        assert "UNJUDGED  race.noise-decides-nothing" in done.stdout

    def test_json(self) -> None:
        done = checks("run", "--suite", "race", "--format", "json")
        assert json.loads(done.stdout)["counts"]["holds"] == 7

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--db", "none.db"], "there is no warehouse at none.db; run `warehouse build`"),
            (["--db", "text.db"], "text.db cannot be opened as a DuckDB database"),
            (["--db", "other.db"], "other.db has no build_info, lake_files"),
            (["--lake", "nowhere"], "There is no lake at nowhere"),
            (["--policy", "nowhere.toml"], "nowhere.toml: the policy cannot be read"),
            (["--policy", "text.db"], "text.db: not valid TOML"),
            (["--suite", "speed"], "there is no suite 'speed'"),
            (["--receipt", "nowhere.json"], "there is no receipt at nowhere.json"),
            (["--receipt", "text.db"], "text.db is no receipt"),
        ],
    )
    def test_2_wrong_usage(self, arguments: list[str], words: str) -> None:
        Path("text.db").write_text("this is no database")
        duckdb.connect("other.db").close()
        done = checks("run", *arguments)
        assert done.exit_code == 2
        assert words in done.stderr
        assert done.stdout == ""

    def test_explain(self) -> None:
        done = checks("explain", "race.quiet")
        assert done.exit_code == 0
        assert "in every row bound is at least noise_floor" in done.stdout
        assert "FROM (SELECT DISTINCT device, run_id, timing_mode FROM winners) w" in done.stdout
        assert done.stdout.rstrip().endswith("holds (1 rows)")

    def test_explain_an_unknown_rule(self) -> None:
        assert checks("explain", "race.speed").exit_code == 2


@pytest.mark.usefixtures("in_good")
class TestReport:
    def test_it_is_written_behind_a_passing_gate_and_verified_later(self) -> None:
        assert checks("report").exit_code == 0
        assert sorted(p.name for p in Path("reports").iterdir()) == [
            "receipt.json",
            "report.html",
            "report.md",
        ]
        assert checks("run", "--suite", "integrity").exit_code == 0
        Path("reports/report.md").write_text("we win everything\n")
        done = checks("run", "--suite", "integrity")
        assert done.exit_code == 1
        assert (
            "FALSE  integrity.report-current  the report of reports/receipt.json is stale: report.md changed"
            in (done.stdout)
        )

    def test_nothing_is_written_behind_a_closed_gate(self) -> None:
        change("UPDATE winners SET rounds = 3")
        done = checks("report")
        assert done.exit_code == 1
        assert not Path("reports").exists()
        assert "the gate is closed, nothing was written" in done.stderr

    def test_an_old_report_is_left_alone_and_called_stale(self) -> None:
        assert checks("report").exit_code == 0
        before = Path("reports/report.md").read_bytes()
        change("DELETE FROM noise_floors")
        done = checks("report")
        assert done.exit_code == 3
        assert "reports/report.md is of an earlier state and stale" in done.stderr
        assert Path("reports/report.md").read_bytes() == before

    def test_a_new_lake_makes_the_report_stale(self) -> None:
        assert checks("report").exit_code == 0
        write_race(Path("lake"), Race(entrants=ENTRANTS, cells=CELLS, run_id=run_id(7)))
        build([Path("lake")], Path("warehouse.db"))
        done = checks("run", "--suite", "integrity")
        assert done.exit_code == 1
        assert "is stale: lake changed; run `checks report`" in done.stdout

    def test_a_folder_that_cannot_be_written(self) -> None:
        Path("file").write_text("")
        done = checks("report", "--out", "file/reports")
        assert done.exit_code == 2
        assert "the report cannot be written to file/reports" in done.stderr


@pytest.mark.parametrize("command", ["checks", "warehouse"])
def test_outside_the_environment_the_missing_package_is_one_sentence(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", command, "--help"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(rf"{command}: \S+ has no package 'typer'; run this in the env.*\n", done.stderr)


@pytest.mark.usefixtures("in_good")
@pytest.mark.parametrize("arguments", [["run"], ["fix"], ["new", "wins('dispatch', '*/*/*/*')"], ["report"]])
def test_a_warehouse_of_an_older_version_is_named(arguments: list[str]) -> None:
    Path("pyproject.toml").write_text('[tool.checks]\ndocuments = ["*.md"]\n')
    change("DROP VIEW decode_runs CASCADE")
    done = checks(*arguments)
    assert done.exit_code == 2
    assert "decode_runs" in done.stderr
    assert "run " in done.stderr
    assert done.stdout == ""
