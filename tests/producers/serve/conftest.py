"""The serve command with servers that misbehave: the real producer, keeper, client and lake; no engine, no GPU."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from producers.serve.__main__ import main

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORDS = [a + b + c for a in "abcdef" for b in "aeiou" for c in "lmnrst"]

Row = dict[str, Any]


@dataclass
class Serve:
    """Runs the command in a folder of its own; the lake is ``lake`` in it."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def model(self) -> Path:
        """A folder with a vocabulary and no weights."""
        folder = self.folder / "toy"
        if not folder.is_dir():
            folder.mkdir()
            vocabulary = {"\u0120" + word: index for index, word in enumerate(WORDS, 3)}
            (folder / "config.json").write_text(json.dumps({"vocab_size": len(WORDS) + 3}))
            (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
        return folder

    def arguments(self, *modes: str, token_s: float = 0.002) -> list[str]:
        """Options that serve one engine for each mode, named like it, at small sizes."""
        servers = []
        for mode in modes:
            command = [sys.executable, str(HERE / "bad_server.py"), "--mode", mode, "--token-s", str(token_s)]
            servers.append(f"--server={mode}={shlex.join(command)} --port {{port}}")
        return [
            *servers,
            *("--engines", ",".join(modes), "--model", str(self.model), "--lake", str(self.lake)),
            *("--logs", str(self.folder / "logs"), "--no-build", "--repeats=1", "--concurrency=2"),
            *("--requests=4", "--input-tokens=8", "--output-tokens=4", "--request-timeout=10"),
        ]

    def __call__(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the command in this process to its end."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(options)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return subprocess.CompletedProcess(options, code, out.getvalue(), err.getvalue())

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Run the command in a process of its own, and return at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "producers.serve", *options],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, sql: str) -> list[Row]:
        """Rows of a query over the lake's tables."""
        with duckdb.connect() as connection:
            for table in sorted(path.name for path in self.lake.iterdir() if any(path.glob("*.parquet"))):
                files = f"'{self.lake / table}/*.parquet', union_by_name=true, hive_partitioning=false"
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files})")
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def runs(self) -> dict[str, Row]:
        """Rows of serving_runs by engine (the last one of each)."""
        return {row["engine"]: row for row in self.rows("SELECT * FROM serving_runs ORDER BY recorded_at")}

    def processes(self) -> list[int]:
        """Processes whose environment has this folder as their temporary folder, this one left out."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"TMPDIR={self.folder}".encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue  # it ended while we looked, or belongs to somebody else
        return [pid for pid in found if pid != os.getpid()]


def listening(port: int) -> bool:
    """Whether somebody accepts connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _serve(folder: Path) -> Iterator[Serve]:
    with pytest.MonkeyPatch.context() as patch:
        # The temporary folder holds the device's lock and marks the processes of the test.
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("TRITON_INTERPRET", "1")  # a CPU, whatever the machine has
        yield Serve(folder)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """The command in a temporary folder."""
    yield from _serve(tmp_path)


@pytest.fixture(scope="module")
def shared_serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """One folder for a whole module."""
    yield from _serve(tmp_path_factory.mktemp("serve"))
