"""The commands that move a lake between machines, as people type them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.cli import app
from warehouse.lake import scan


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


def test_a_lake_travels_as_a_pack_into_the_lake_of_the_project(lake: Path, project: Path) -> None:
    (project / "lake").rename(project / "there")
    code, out, err = run("pack", project / "there", project / "out")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"{project / 'out'}: 296 rows of 7 tables"

    code, out, err = run("import-lake", project / "out")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1] == f"{project / 'lake'}: 296 rows added"
    assert f"{'samples':<18}{240:>10} added{0:>12} there already" in lines
    code, out, _ = run("import-lake", project / "out")
    assert (code, out.splitlines()[-1]) == (0, f"{project / 'lake'}: 0 rows added")
    assert f"{'samples':<18}{0:>10} added{240:>12} there already" in out


def test_what_did_not_travel_is_named(lake: Path, tmp_path: Path) -> None:
    (lake / "samples" / "empty.parquet").touch()
    (lake / "notes.txt").write_text("by hand")
    for command in (("pack", lake, tmp_path / "out"), ("import-lake", lake, "--lake", tmp_path / "new")):
        code, _, err = run(*command)
        assert code == 3
        assert err.splitlines() == [
            f"note: {lake / 'notes.txt'}: no table of the lake has this name; it is not read",
            f"warehouse: {lake / 'samples' / 'empty.parquet'} is damaged and left out: "
            "the file is empty (0 bytes).",
        ]


def test_a_file_that_the_manifest_does_not_list_is_named(lake: Path, tmp_path: Path) -> None:
    run("pack", lake, tmp_path / "out")
    extra = tmp_path / "out" / "samples-01.parquet"
    extra.write_bytes((tmp_path / "out" / "samples-00.parquet").read_bytes())
    code, _, err = run("import-lake", tmp_path / "out", "--lake", tmp_path / "new")
    assert (code, err) == (0, f"note: {extra}: the manifest does not list it; it is not read\n")


def test_a_file_that_got_lost_on_the_way_is_named(lake: Path, tmp_path: Path) -> None:
    run("pack", lake, tmp_path / "out")
    lost = tmp_path / "out" / "samples-00.parquet"
    lost.unlink()
    code, out, err = run("import-lake", tmp_path / "out", "--lake", tmp_path / "new")
    assert code == 3
    assert err == (
        f"warehouse: {lost} is damaged and left out: it cannot be read (No such file or directory).\n"
    )
    assert out.splitlines()[-1] == f"{tmp_path / 'new'}: 56 rows added"
    assert scan(tmp_path / "new").files("samples") == []


def test_rows_that_disagree_end_with_1_and_nothing_is_written(lake: Path, tmp_path: Path) -> None:
    append(lake, "samples", [sample(1)])
    append(tmp_path / "here", "samples", [sample(1, time_us=5.0)])
    before = scan(tmp_path / "here")
    code, out, err = run("import-lake", lake, "--lake", tmp_path / "here")
    assert (code, out) == (1, "")
    assert err.startswith("warehouse: samples: run_id 20260101T000000Z-00000000, cell_id tiny/bf16/uniform/1")
    assert err.endswith("(1 such rows); nothing was imported.\n")
    assert scan(tmp_path / "here") == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pack", "nowhere", "out"), "There is no lake at nowhere"),
        (("import-lake", "nowhere"), "There is no lake or pack at nowhere"),
        (("pack", "../lake", "../lake/out"), "../lake/out lies in the lake itself"),
        (("pack", "../lake", ".."), ".. is there already and not empty"),
        (("import-lake", "../lake"), "../lake is the lake itself"),
    ],
)
def test_a_wrong_place_is_a_sentence(
    lake: Path, project: Path, arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"warehouse: {says}")
    assert err.count("\n") == 1
