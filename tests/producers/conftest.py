"""A race with fake workers, run as the command that people type, and a reader of its lake."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class FakeRace:
    """Runs the race command with fake workers in a folder of its own; the lake is ``lake`` in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self._monkeypatch = monkeypatch
        self._contestants: dict[str, Any] = {}
        spec = importlib.util.spec_from_file_location("fake_race", HERE / "fake_race.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._race = module.race
        for name, fake in module.FAKES.items():
            monkeypatch.setattr(module.race, name, fake)
        # The temporary folder holds the device lock: tests do not wait for each other.
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        monkeypatch.chdir(folder)

    def contestants(self, **told: dict[str, Any]) -> None:
        """Add or change contestants: name (underscores for dashes) -> options of its fake worker."""
        for name, options in told.items():
            known = {"house": name.split("_")[0], "options": options}
            self._contestants[name.replace("_", "-")] = known
        self._monkeypatch.setenv("FAKE_CONTESTANTS", json.dumps(self._contestants))

    def __call__(self, *options: str, build: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a race in this process to its end."""
        arguments = ["--lake", str(self.lake), *([] if build else ["--no-build"]), *options]
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = self._race.main(arguments)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def start(self, *options: str, **env: str) -> subprocess.Popen[str]:
        """Start a race in a process of its own and return at once."""
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
        command = [sys.executable, "-P", str(HERE / "fake_race.py"), "--lake", str(self.lake), "--no-build"]
        return subprocess.Popen(
            [*command, *options],
            env={**os.environ, "PYTHONPATH": path, **env},
            stderr=subprocess.PIPE,
            text=True,
        )

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query over the lake's tables (views over its files)."""
        with duckdb.connect() as connection:
            for table in sorted(path.name for path in self.lake.iterdir() if any(path.glob("*.parquet"))):
                files = f"'{self.lake / table}/*.parquet', union_by_name=true, hive_partitioning=false"
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files})")
            return connection.execute(sql).fetchall()


@pytest.fixture
def fake_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRace:
    """A race with fake workers in a temporary folder."""
    return FakeRace(tmp_path, monkeypatch)


@pytest.fixture
def small() -> tuple[str, ...]:
    """Options of a race of two cells that takes under a second."""
    return (
        "--contestant=dispatch,example",
        "--precision=bf16",
        "--routing=uniform",
        "--tokens=1,4",
        "--rounds=4",
        "--sessions=2",
        "--samples=2",
    )
