"""What holds for every format: detection, accounting, once, refusals, exit codes, the command."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from checks.claims import scan as scan_claims
from tests.warehouse.importers.conftest import Imports, Rows
from tests.warehouse.importers.samples import SAMPLES, lines, options, sglang_run, vllm_run, vllm_summary
from warehouse.build import build
from warehouse.cli import app
from warehouse.importers import importing, store
from warehouse.importers.base import Given, Parsed
from warehouse.importers.importing import UnforeseenError, import_paths
from warehouse.importers.registry import by_name, detect, importers
from warehouse.importers.source import Source


def test_every_format_has_a_sample() -> None:
    assert SAMPLES.keys() == importers().keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_recognised_as_what_it_is(imports: Imports, name: str) -> None:
    path = imports.write(*SAMPLES[name])
    assert [importer.name for importer in importers().values() if importer.detects(Source(path))] == [name]
    assert detect(Source(path)).name == name


@pytest.mark.parametrize("name", SAMPLES)
def test_a_second_import_adds_nothing(imports: Imports, name: str) -> None:
    path = imports.write(*SAMPLES[name])
    first = imports.run(path, *options(name))
    files = imports.files()
    second = imports.run(path, *options(name))

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert f"{name}, imported before" in second.output
    assert imports.files() == files
    assert files


@pytest.mark.parametrize("name", SAMPLES)
def test_records_are_rows_or_named_refusals(imports: Imports, name: str) -> None:
    imports.run(imports.write(*SAMPLES[name]), *options(name))
    (taken,) = imports.rows("imports")
    tables = ("serving_runs", "serving_requests", "points", "tuned_configs")
    assert taken["rows_out"] == sum(len(imports.rows(table)) for table in tables) > 0
    named = json.loads(taken["refusals_json"] or "[]")
    assert taken["refused"] == sum(refusal["records"] for refusal in named)
    assert taken["records_in"] == taken["rows_out"] + taken["refused"]
    assert (taken["format"], taken["source"]) == (name, SAMPLES[name][0])


def test_the_format_may_stand_in_front_of_the_paths(imports: Imports) -> None:
    path = imports.write("run.json", vllm_summary())
    for arguments in (("vllm-serve", path), ("vllm_serve", path), ("--format", "vllm-serve", path)):
        result = imports.run(*arguments)
        assert result.exit_code == 0
        assert "run.json: vllm-serve" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense", "."], "'nonsense' is no format that can be imported; there are vllm-serve, "),
        (["--format", "nonsense", "."], "'nonsense' is no format"),
        (["vllm-serve"], "give the file or folder to import"),
        ([], "give the file or folder to import"),
        (["missing.json"], "There is no file or folder missing.json; name one that is there."),
        ([""], "give the file or folder to import"),
        (["x" * 300], "cannot look at xxx"),
        ([os.devnull], f"{os.devnull} is no regular file; write what it gives into one, and name that."),
        ([".", "--engine", " "], "--engine is blank; say what it is, or leave it out."),
        ([".", "--direction", "up"], "--direction is 'lower' or 'higher', not 'up'."),
        ([".", "--prefix-cache", "maybe"], "--prefix-cache is 'off' or 'on', not 'maybe'."),
    ],
)
def test_wrong_usage_is_a_sentence(imports: Imports, arguments: list[str], sentence: str) -> None:
    result = imports.run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert not imports.lake.exists()


def test_formats_are_listed(imports: Imports) -> None:
    result = imports.run("--formats")
    assert [line.split()[0] for line in result.output.splitlines()] == list(importers())


def test_a_folder_says_what_each_file_was(imports: Imports) -> None:
    imports.write("b/run.json", vllm_summary())
    imports.write("a/sglang.jsonl", lines(sglang_run()))
    imports.write("a/README.md", "# notes\n")
    imports.write("a/log.txt", "nothing\n")

    result = imports.run(imports.folder)

    assert result.exit_code == 0
    assert [line.partition(": ")[2].partition(":")[0] for line in result.output.splitlines()[:4]] == [
        "left out",
        "left out",
        "sglang-serve",
        "vllm-serve",
    ]
    assert {row["source"] for row in imports.rows("imports")} == {
        "results/a/sglang.jsonl",
        "results/b/run.json",
    }


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("other.json", b'{"a": 1}', "no format recognises this JSON file (a)"),
        ("empty.json", b"", "the file is empty."),
        ("zeros.json", b"\0" * 100, "the file is binary."),
        ("cut.parquet", b"PAR1abc", "no format recognises this Parquet file (unreadable)"),
        ("list.json", b"[]", "no format recognises this JSON file (no object in it)"),
        ("cut.json", b'{"date": "2026', "no format recognises this JSON file (line 1 (byte 0): cut short: "),
    ],
)
def test_a_data_file_of_no_format_is_partial_and_the_rest_is_imported(
    imports: Imports, name: str, content: bytes, reason: str
) -> None:
    imports.write("run.json", vllm_summary())
    imports.write(name, content)

    result = imports.run(imports.folder, "--allow-partial")

    assert result.exit_code == 3
    assert f"warehouse: results/{name}: not imported: {reason}" in result.output
    assert len(imports.rows("serving_runs")) == 1


def test_a_file_of_bad_records_alone_is_not_forgiven(imports: Imports) -> None:
    path = imports.write("run.json", json.dumps(vllm_summary())[:-20])
    result = imports.run(path, "--format", "vllm-serve", "--allow-partial")
    assert result.exit_code == 3
    assert "run.json, line 1 (byte 0): " in result.output
    assert imports.files() == []


def test_good_records_stay_and_bad_ones_are_named(imports: Imports) -> None:
    text = lines(vllm_summary()) + '{"a": 1}\nwords\n[1, 2]\n' + lines(vllm_summary(duration=3.0)) + '{"dur'
    path = imports.write("run.json", text)

    result = imports.run(path)

    assert result.exit_code == 3
    assert [run["duration_s"] for run in imports.rows("serving_runs")] == [2.0, 3.0]
    (taken,) = imports.rows("imports")
    assert (taken["records_in"], taken["rows_out"], taken["refused"]) == (7, 2, 5)
    reasons = [refusal["reason"] for refusal in json.loads(taken["refusals_json"])]
    assert reasons[:4] == [
        "an object of another kind (it begins with 'a')",
        "a line that is not JSON: 'words'",
        "1 is no object",
        "2 is no object",
    ]
    assert reasons[4].startswith("cut short")
    assert imports.run(path, "--allow-partial").exit_code == 0
    assert imports.run(path).exit_code == 3  # imported before, and still partial


def test_the_same_run_in_two_files_counts_once(imports: Imports) -> None:
    imports.write("a.json", vllm_run())
    imports.write("b.json", json.dumps(vllm_run(), indent=4))

    result = imports.run(imports.folder)

    assert result.exit_code == 0
    assert (
        "known: results/b.json, line 1 (byte 0): the lake has this run from results/a.json" in result.output
    )
    assert (len(imports.rows("serving_runs")), len(imports.rows("serving_requests"))) == (1, 3)
    second = imports.rows("imports")[1]
    assert (second["records_in"], second["rows_out"], second["refused"]) == (4, 0, 4)
    files = imports.files()
    imports.run(imports.folder)
    assert imports.files() == files


def test_one_file_under_two_names_is_one_source(imports: Imports) -> None:
    imports.write("a.json", vllm_run())
    imports.write("b.json", vllm_run())
    imports.run(imports.folder)
    assert len(imports.rows("imports")) == 1


def test_other_facts_for_the_same_file_are_refused(imports: Imports) -> None:
    path = imports.write("run.json", vllm_summary())
    imports.run(path, "--device", "NVIDIA H200")
    result = imports.run(path, "--device", "NVIDIA H100")

    assert result.exit_code == 3
    assert "imported before (given: device=NVIDIA H200)" in result.output
    assert [run["device"] for run in imports.rows("serving_runs")] == ["NVIDIA H200"]


@pytest.mark.parametrize("after", [1, 2])
def test_an_import_that_was_killed_is_finished_by_the_next(
    imports: Imports, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    path = imports.write("run.json", vllm_run())
    calls: list[str] = []
    real = store.append

    def dying(lake: Path, table: str, rows: Any) -> Path | None:
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(table)
        return real(lake, table, rows)

    monkeypatch.setattr(store, "append", dying)
    assert imports.run(path).exit_code == 130
    monkeypatch.setattr(store, "append", real)
    assert imports.rows("imports") == []

    assert imports.run(path).exit_code == 0
    report = build([imports.lake], imports.folder / "warehouse.db")
    assert (report.rows["serving_runs"], report.rows["serving_requests"], report.conflicts) == (1, 3, ())
    (taken,) = imports.rows("imports")
    assert (taken["records_in"], taken["rows_out"]) == (4, 4)


def test_a_record_that_an_importer_loses_stops_the_import(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = by_name("vllm-serve")

    def losing(source: Source, given: Given) -> Parsed:
        parsed = importer.parse(source, given)
        parsed.expect()
        return parsed

    monkeypatch.setitem(importers(), "vllm-serve", dataclasses.replace(importer, parse=losing))
    result = imports.run(imports.write("run.json", vllm_summary()))
    assert result.exit_code == 1
    assert "2 records became 1 rows and 0 refusals as vllm-serve; nothing of it was imported" in result.output
    assert imports.files() == []


def test_what_an_importer_did_not_foresee_refuses_the_file_by_name(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(source: Source, given: Given) -> Parsed:
        raise KeyError("surprise")

    importer = dataclasses.replace(by_name("vllm-serve"), parse=breaking)
    monkeypatch.setitem(importers(), "vllm-serve", importer)
    imports.write("run.json", vllm_summary())
    imports.write("sglang.jsonl", lines(sglang_run()))
    result = imports.run(imports.folder)
    assert result.exit_code == 3
    assert (
        "results/run.json: not imported: it cannot be read as vllm-serve (KeyError: 'surprise')"
        in result.output
    )
    assert [run["engine"] for run in imports.rows("serving_runs")] == ["sglang"]
    with pytest.raises(UnforeseenError):
        importing.parse(importer, Source(imports.folder / "run.json"), Given())


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_imported(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports.write("a.json", vllm_summary())
    imports.write("b.json", vllm_summary(duration=3.0))
    real = Path.open

    def denied(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "a.json":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", denied)
    result = imports.run(imports.folder)
    assert result.exit_code == 3
    assert "results/a.json: not imported: it cannot be read: Permission denied." in result.output
    assert [run["duration_s"] for run in imports.rows("serving_runs")] == [3.0]


def test_no_path_of_the_machine_enters_the_lake(imports: Imports) -> None:
    for name, content in SAMPLES.values():
        imports.write(name, content)
    imports.run(imports.folder, "--unit", "ms", "--direction", "lower")
    for table in ("imports", "serving_runs", "points"):
        assert str(imports.folder.parent) not in json.dumps(imports.rows(table), default=str)


def test_imported_rows_are_in_the_warehouse_with_their_source(imports: Imports) -> None:
    imports.run(imports.write("run.json", vllm_run()))
    db = imports.folder / "warehouse.db"
    build([imports.lake], db)
    with duckdb.connect(str(db), read_only=True) as con:
        found = con.execute(
            "SELECT i.source, r.evidence, count(*) FROM serving_runs r JOIN imports i USING (import_id) "
            "JOIN serving_requests q USING (serving_id) GROUP BY ALL"
        ).fetchall()
    assert found == [("run.json", "imported", 3)]


def test_outcomes_come_one_by_one(imports: Imports) -> None:
    imports.write("a.json", vllm_summary())
    imports.write("b.json", vllm_summary(duration=3.0))
    walk = import_paths([imports.folder], imports.lake)
    next(walk)
    assert len(imports.rows("serving_runs")) == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_files_of_other_shells_are_read(imports: Imports, encoding: str) -> None:
    result = imports.run(imports.write("run.json", json.dumps(vllm_summary()).encode(encoding)))
    assert result.exit_code == 0
    assert len(imports.rows("serving_runs")) == 1


def test_latin_1_is_refused_by_line(imports: Imports, imported: Callable[..., Rows]) -> None:
    text = lines(vllm_summary()) + json.dumps(vllm_summary(label="caf\u00e9"), ensure_ascii=False)
    result = imports.run(imports.write("run.json", text.encode("latin-1")))
    assert result.exit_code == 3
    assert "run.json, line 2 (byte " in result.output
    assert "text that is not Unicode" in result.output
    assert len(imports.rows("serving_runs")) == 1


def test_what_the_recorded_lake_has_is_known_to_the_local_one(
    imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    first, second = sglang_run(), sglang_run(duration=11.0)
    path = imports.write("sglang.jsonl", lines(first))
    imports.run(path)
    imports.lake.rename(tmp_path / "data")
    grown = imports.write("grown.jsonl", lines(first, second))

    for file, rows in ((path, []), (grown, [11.0])):
        result = CliRunner().invoke(app, ["import", str(file)])
        assert result.exit_code == 0, result.output
        assert [run["duration_s"] for run in imports.rows("serving_runs")] == rows
    assert build([tmp_path / "data", tmp_path / "lake"], tmp_path / "w.db").conflicts == ()


def test_a_fact_that_changes_nothing_is_said(imports: Imports) -> None:
    result = imports.run(imports.write("run.json", vllm_summary()), "--unit", "ms")
    assert "note: --unit changes nothing here" in result.output


def test_a_file_that_is_recognised_has_to_give_its_records(imports: Imports) -> None:
    imports.write("results.log", json.dumps(sglang_run())[:-9] + "\n" + lines(sglang_run()))
    imports.write("table.txt", "x_values\n{}\n")
    result = imports.run(imports.folder)
    assert result.exit_code == 3
    assert "results/results.log, line 1 (byte 0): cut short" in result.output
    assert "results/table.txt: left out: no format recognises" in result.output


def test_a_number_of_an_imported_run_can_be_claimed(imports: Imports) -> None:
    imports.run(imports.write("run.json", vllm_summary()))
    db = imports.folder / "warehouse.db"
    build([imports.lake], db)
    query = "SELECT output_tokens_per_s FROM serving_runs WHERE evidence = 'imported' AND max_concurrency = 4"
    (imports.folder / "pyproject.toml").write_text('[tool.checks]\ndocuments = ["*.md"]\n')
    text = "The run at concurrency 4 gave {}<!-- = {} --> output tokens/s.\n\n"
    (imports.folder / "README.md").write_text(text.format(200, query) + text.format(210, query))

    claims = scan_claims(imports.folder, db).claims

    assert [(claim.verdict.value, claim.reason) for claim in claims] == [
        ("holds", "the lake gives 200.0"),
        ("false", "210 stands for [209.5, 210.5), the lake gives 200.0"),
    ]


def test_a_name_that_is_no_unicode_does_not_stop_the_import(imports: Imports) -> None:
    folder = os.fsencode(imports.folder)
    for name in (b"caf\xe9.json", b"E=8,N=64,device_name=caf\xe9.json"):
        content = vllm_summary() if name.startswith(b"caf") else {"1": {"BLOCK_SIZE_M": 16}}
        Path(os.fsdecode(folder + b"/" + name)).write_text(json.dumps(content))
    result = imports.run(imports.folder)
    assert result.exit_code == 0, result.output
    assert {row["source"] for row in imports.rows("imports")} == {
        "results/caf\ufffd.json",
        "results/E=8,N=64,device_name=caf\ufffd.json",
    }


def test_a_folder_that_cannot_be_listed_is_no_empty_one(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports.write("hidden/run.json", vllm_summary())
    real = os.scandir

    def denied(path: Any) -> Any:
        if str(path).endswith("hidden"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    result = imports.run(imports.folder)
    assert result.exit_code == 2
    assert "hidden: Permission denied" in result.output


def test_what_is_no_file_in_a_folder_is_named(imports: Imports, tmp_path: Path) -> None:
    imports.write("runs/run.json", vllm_summary())
    (tmp_path / "elsewhere").mkdir()
    links = {"latest": imports.folder / "runs", "nothing": "missing.json", "away": tmp_path / "elsewhere"}
    (imports.folder / "latest").symlink_to(links["latest"])
    assert imports.run(imports.folder).exit_code == 0  # nothing is lost by leaving that one out
    for name in ("nothing", "away"):
        (imports.folder / name).symlink_to(links[name])
    os.mkfifo(imports.folder / "pipe.json")
    result = imports.run(imports.folder)
    assert result.exit_code == 3
    assert "results/latest: left out: a link to a folder that is imported anyway" in result.output
    assert "results/nothing: not imported: a link to nothing" in result.output
    assert "results/away: not imported: a link to a folder, which is not followed" in result.output
    assert "results/pipe.json: not imported: no regular file" in result.output


def test_a_folder_without_a_file_is_said(imports: Imports) -> None:
    result = imports.run(imports.folder)
    assert result.exit_code == 2
    assert f"There is no file in the folder {imports.folder}" in result.output
