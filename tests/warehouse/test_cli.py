from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from tests.lakes import Race, run_id, write
from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.cli import app
from warehouse.status import status

Start = Callable[..., subprocess.Popen[str]]

COMMAND = "from warehouse.cli import main\nmain()"


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, below that of a project."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def test_build_says_what_it_read_and_where_it_is(lake: Path, tmp_path: Path) -> None:
    code, out, err = run("build", "--lake", lake, "--db", tmp_path / "w.db")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'w.db'}: 296 rows of 7 files, ")


def test_build_of_a_damaged_lake_builds_names_the_file_and_ends_with_3(lake: Path, tmp_path: Path) -> None:
    bad = lake / "samples" / "empty.parquet"
    bad.touch()
    code, _, err = run("build", "--lake", lake, "--db", tmp_path / "w.db")
    assert (code, err) == (3, f"warehouse: {bad} is damaged and left out: the file is empty (0 bytes).\n")
    assert (tmp_path / "w.db").exists()


def test_build_of_rows_that_disagree_ends_with_1(tmp_path: Path) -> None:
    append(tmp_path / "lake", "samples", [sample(0)])
    append(tmp_path / "lake", "samples", [sample(0, time_us=1.0)])
    code, out, err = run("build", "--lake", tmp_path / "lake", "--db", tmp_path / "w.db")
    assert code == 1
    assert err.startswith("warehouse: samples: the same identity with different values: run_id ")
    assert "samples: 1 repeated rows were recognised and left out" in out


def test_several_lakes_are_built_together(tmp_path: Path) -> None:
    write(tmp_path / "a", Race())
    write(tmp_path / "b", Race(run_id=run_id(1)))
    code, out, _ = run("build", "--lake", tmp_path / "a", "--lake", tmp_path / "b", "--db", tmp_path / "w.db")
    assert code == 0
    assert "policies: 1 repeated rows" in out
    with duckdb.connect(str(tmp_path / "w.db"), read_only=True) as con:
        assert con.execute("SELECT count(DISTINCT run_id) FROM samples").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [
        (["data", "lake"], ["data", "lake"]),
        (["data"], ["data"]),
        (["lake", "below/lake"], ["below/lake"]),
        (["lake", "below/data"], ["below/data"]),
    ],
)
def test_without_a_name_the_recorded_and_the_local_lake_are_built_together(
    project: Path, folders: list[str], chosen: list[str]
) -> None:
    for number, folder in enumerate(folders):
        append(project / folder, "samples", [sample(n, run_id=run_id(number)) for n in range(len(folder))])
    code, out, err = run("build")
    assert code == 0
    named = next(line for line in err.splitlines() if line.startswith("lake: ")).removeprefix("lake: ")
    assert [Path(lake).resolve() for lake in named.split(", ")] == [project / folder for folder in chosen]
    assert f": {sum(map(len, chosen))} rows of {len(chosen)} files" in out
    assert (project / chosen[0]).with_name("warehouse.db").exists()


def test_without_any_lake_there_is_a_sentence(project: Path) -> None:
    for command in ("build", "verify", "status"):
        code, out, err = run(command)
        assert (code, out) == (2, "")
        assert err.startswith("warehouse: There is no lake/ and no data/ in ")
        assert err.count("\n") == 1


def test_verify_prints_findings_and_ends_with_their_code(lake: Path) -> None:
    append(lake, "samples", [sample(0, run_id=run_id(7))])
    (lake / "notes.txt").touch()
    code, out, _ = run("verify", "--lake", lake)
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith(f"note: {lake / 'notes.txt'}: ")
    assert f"run: {run_id(7)} is mentioned in samples and missing in runs" in lines
    assert lines[-1].startswith("297 rows of 8 files in 1 runs: ")


def test_verify_with_a_malformed_policy_is_a_sentence(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("version = ")
    code, out, err = run("verify", "--lake", lake, "--policy", tmp_path / "p.toml")
    assert (code, out) == (2, "")
    assert err.startswith("warehouse: p.toml: not valid TOML")


def test_status_counts_files_and_rows_and_lists_runs(lake: Path) -> None:
    append(lake, "runs", [{**_event(), "event_seq": 0, "event": "started"}])
    (lake / "samples" / "empty.parquet").touch()
    result = status([lake])
    assert (result.tables["samples"], result.tables["runs"], result.tables["costs"]) == (
        (1, 240),
        (2, 3),
        (0, 0),
    )
    assert [(r.run_id, r.last_event) for r in result.runs] == [
        (Race().run_id, "finished"),
        (run_id(8), "started"),
    ]
    code, out, err = run("status", "--lake", lake)
    assert code == 3
    assert "empty.parquet is damaged" in err
    assert f"{run_id(8)}  race      unknown           started      2026-01-01 00:08:00Z" in out


def _event() -> dict[str, object]:
    return {"run_id": run_id(8), "recorded_at": Race(run_id=run_id(8)).started_at(), "producer": "race"}


def test_help_needs_no_heavy_import(python: Start) -> None:
    process = python(
        "import atexit\nfrom warehouse.cli import main\n"
        "heavy = {'duckdb', 'pyarrow', 'polars', 'pandas', 'torch', 'great_expectations'}\n"
        "atexit.register(lambda: print('heavy:', sorted(heavy & set(sys.modules))))\n"
        "sys.argv[1:] = ['--help']\nmain()"
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.rstrip().endswith("heavy: []")
    assert all(name in out for name in ("build", "verify", "status"))


def test_the_data_side_imports_no_engine(lake: Path, python: Start) -> None:
    process = python(
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'torch', 'triton', 'vllm', 'sglang', 'transformers'}:\n"
        "            raise ImportError('the data side has no ' + name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.argv[1:] = ['build', '--lake', {str(lake)!r}, '--db', 'w.db']\n{COMMAND}"
    )
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def _without_override() -> None:
    """Let permissions hold for root as well: drop CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH at the next exec."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):
        libc.prctl(24, capability, 0, 0, 0)


@pytest.mark.parametrize("command", ["build", "append"])
def test_a_folder_that_may_not_be_written_is_a_sentence(
    lake: Path, tmp_path: Path, python: Start, command: str
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    code = {
        "build": f"sys.argv[1:] = ['build', '--lake', {str(lake)!r}, '--db', 'closed/w.db']\n{COMMAND}",
        "append": "from pathlib import Path\nfrom tests.warehouse.rows import sample\n"
        "from warehouse.append import append\nfrom warehouse.errors import StorageError\n"
        "try:\n    append(Path('closed/lake'), 'samples', [sample(0)])\n"
        "except StorageError as error:\n    sys.exit(f'append: {error}')",
    }[command]
    process = python(code, preexec_fn=_without_override)
    out, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert out == ""
    assert err.startswith(
        ("warehouse: cannot write closed/w.db: ", "append: cannot append 1 rows of samples to")
    )
    assert "Permission denied" in err
    assert err.count("\n") == 1
    assert list(closed.iterdir()) == []
