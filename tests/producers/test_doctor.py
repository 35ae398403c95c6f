"""What the machine can run, with fake workers in place of the contestants."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from producers import doctor


@pytest.fixture
def examine(fake_race, monkeypatch, capsys):
    """Run the doctor with the contestants of ``fake_race``; returns exit code, standard output and error."""
    spec = importlib.util.spec_from_file_location("fake_race", Path(__file__).with_name("fake_race.py"))
    fakes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fakes)
    monkeypatch.setattr(doctor, "Scratch", fakes.FakeScratch)
    monkeypatch.setattr(doctor, "registry", fakes.fake_registry)
    monkeypatch.setattr(doctor, "detect", fakes.fake_detect)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*options):
        code = doctor.main(["--lake", str(fake_race.lake), *options])
        return code, *capsys.readouterr()

    return run


def test_a_machine_that_can_race(examine):
    code, out, _ = examine()

    assert code == 0
    assert "The default race can run here" in out
    assert "MISSING" not in out


def test_what_the_default_race_lacks_is_named_with_what_to_do(examine, fake_race):
    fake_race.contestants(example={"faults": [{"op": "hello", "how": "refuse", "code": "not-installed"}]})

    code, out, _ = examine()

    assert code == 1
    assert "example: pip install 'moe-race[kernels]'" in out


def test_an_engine_that_the_default_race_does_not_need_is_only_absent(examine, fake_race):
    fake_race.contestants(vllm={"faults": [{"op": "hello", "how": "refuse", "code": "not-installed"}]})

    code, out, _ = examine()

    assert code == 0
    assert any(line.split()[:2] == ["absent", "vllm"] for line in out.splitlines())


def test_a_missing_interpreter_is_named(examine):
    code, out, _ = examine("--interpreter=example=/no/such/python")

    assert code == 1
    assert "no program at python" in out


def test_an_unknown_contestant_is_one_sentence(examine):
    code, _, err = examine("--interpreter=nobody=/usr/bin/python3")

    assert code == 2
    assert err.startswith("doctor: There is no contestant 'nobody'; known are ")


def test_a_lake_that_cannot_be_written_is_named(examine):
    code, out, _ = examine("--lake=/proc/cpuinfo")

    assert code == 1
    assert "/proc/cpuinfo cannot be written" in out


def test_it_needs_no_package_itself_and_names_those_that_a_race_lacks(examine, monkeypatch):
    # -S: without site-packages, as in a Python outside the environment
    bare = [sys.executable, "-S", "-c", "import producers.doctor as d; print(d._packages().detail)"]
    root = Path(__file__).parents[2]
    done = subprocess.run(bare, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no typer, rich, pyarrow, duckdb in ")

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rich" else found(name))
    code, out, _ = examine()
    assert code == 1
    assert "packages: pip install moe-race into this Python" in out
