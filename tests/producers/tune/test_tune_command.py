"""The whole command under the interpreter: rows, tables, resumption, kills, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dispatch import tables
from producers.environment import Device, Environment, Sources
from producers.errors import PeerError, RefusedError
from producers.plan import Entrant
from producers.tune.command import check_greeting
from warehouse.build import build

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
WAIT_S = 120.0
# Nobody edits the sources between the start of a run and its end, as far as the run can see.
LAUNCHER = """
import sys
from producers import environment
environment.read_sources = lambda root: environment.Sources(None, "sources", None)
from producers.tune.command import main
sys.exit(main())
"""
ONE_CELL = ("--cells", "interpreter-small/bf16/*/2", "--candidates", "4")


class Command:
    """The command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake, self.out = folder / "lake", folder / "out"
        paths = os.pathsep.join([str(ROOT), str(HERE.parent)])
        self.env = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": ""}
        self.env["TRITON_INTERPRET"] = "1"

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", LAUNCHER, "--lake", str(self.lake), "--out", str(self.out)]
        return subprocess.Popen(
            [*command, *options],
            cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *options: str) -> tuple[int, str]:
        process = self.start(*options)
        said = process.communicate(timeout=WAIT_S)
        return process.returncode, "".join(said)

    def rows(self, table: str = "tuning") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in sorted(self.lake.glob(f"{table}/*.parquet")):
            found += pq.read_table(path, partitioning=None).to_pylist()
        return found


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def chosen_of(rows: list[dict[str, Any]], contestant: str) -> dict[str, Any]:
    marked = [row for row in rows if row["contestant"] == contestant and row["chosen"]]
    return max(marked, key=lambda row: row["trial"])


def test_a_run_leaves_its_search_in_the_lake_and_its_choice_in_tables(command: Command) -> None:
    everybody = ("dispatch", "example", "vllm", "torch-eager")
    code, said = command.run("--contestants", *everybody, *ONE_CELL, "--budget-seconds", "3")
    assert code == 3, said  # two of them could not be tuned, and are named
    assert "tune: vllm in interpreter-small/bf16/2: not-installed: " in said
    assert "TorchEager has no configurations to choose from" in said
    rows = command.rows()
    assert {row["contestant"] for row in rows} == {"dispatch", "example"}
    cells = {"interpreter-small/bf16/uniform/2", "interpreter-small/bf16/zipf/2"}
    for contestant in ("dispatch", "example"):
        own = [row for row in rows if row["contestant"] == contestant]
        assert {row["cell_id"] for row in own} == cells
        first = min(own, key=lambda row: row["trial"])
        assert (first["trial"], first["stage"], first["is_default"]) == (0, "screen", True)
        assert {row["stage"] for row in own} >= {"screen", "confirm"}
        passed = [row for row in own if row["status"] == "passed"]
        assert all(row["times_us"] and row["relative_error"] < 0.01 for row in passed)
        assert all(row["triton_version"] for row in own)
        assert {row["timing_mode"] for row in own} == {"eager"}
    (path,) = (command.out / "dispatch").glob("*.json")
    table = tables.parse(path.read_text(encoding="utf-8"), path.name)
    choice = json.loads(chosen_of(rows, "dispatch")["config_json"])
    ((key, by_tokens),) = table.entries.items()
    assert key == (choice["kernel"], "bf16", 8, 2, 64, 32)
    assert [by_tokens[2][0].block_n, by_tokens[2][1].block_n] == [
        choice["gate_up"]["block_n"], choice["down"]["block_n"],
    ]  # fmt: skip
    example = json.loads((command.out / "example" / "example.json").read_text(encoding="utf-8"))
    assert example["interpreter-small/bf16/2"] == json.loads(chosen_of(rows, "example")["config_json"])
    events = sorted((row["event_seq"], row["event"], row["producer"]) for row in command.rows("runs"))
    assert events == [(0, "started", "tune"), (1, "finished", "tune")]
    report = build([command.lake], command.folder / "warehouse.db")
    assert report is not None
    assert command.run("--resume")[0] == 2  # nothing is unfinished


def test_a_killed_run_goes_on_where_it_was(command: Command) -> None:
    options = ("--contestants", "example", "--cells", "interpreter-small/bf16/uniform/*")
    options += ("--tokens", "1,2,4", "--candidates", "2", "--budget-seconds", "4")
    process = command.start(*options)
    deadline = time.monotonic() + WAIT_S
    while not any(row["stage"] == "confirm" for row in command.rows()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    before = command.rows()
    done = {row["cell_id"] for row in before if row["stage"] == "confirm"}
    code, said = command.run("--resume", "--budget-seconds", "4")
    assert code == 0, said
    rows = command.rows()
    keys = [(row["run_id"], row["cell_id"], row["contestant"], row["trial"]) for row in rows]
    assert len(set(keys)) == len(keys) > len(before)
    assert rows[: len(before)] == before
    assert {row["cell_id"] for row in rows if row["stage"] == "confirm"} == {
        f"interpreter-small/bf16/uniform/{tokens}" for tokens in (1, 2, 4)
    }
    assert not {row["cell_id"] for row in rows[len(before) :]} & done  # what was done is left alone
    defaults = [row for row in rows if row["is_default"] and row["stage"] == "screen"]
    assert len(defaults) == 3
    table = json.loads((command.out / "example" / "example.json").read_text(encoding="utf-8"))
    assert set(table) == {f"interpreter-small/bf16/{tokens}" for tokens in (1, 2, 4)} | {"triton_version"}


def test_a_signal_stops_cleanly(command: Command) -> None:
    process = command.start("--contestants", "example", *ONE_CELL, "--budget-seconds", "60")
    deadline = time.monotonic() + WAIT_S
    while not command.rows("runs"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said = "".join(process.communicate(timeout=WAIT_S))
    assert process.returncode == 4, said
    assert "tune: SIGTERM came." in said
    assert [row["event"] for row in command.rows("runs")] == ["started", "stopped"]


def test_a_search_of_another_program_or_card_is_not_continued() -> None:
    entrant = Entrant("example", "example", "module:Class")
    card = Device("NVIDIA H200", "GPU-1234")
    here = Environment(card, Sources(None, "sources", None), "host", "platform")
    hello = {"device_uuid": "1234", "package_version": "1", "triton_version": "3.7.1"}
    known = [{"contestant": "example", "package_version": "1", "triton_version": "3.7.1"}]
    check_greeting(entrant, hello, here, known)
    with pytest.raises(RefusedError, match=r"triton_version of 'example' was 3\.7\.1 and is 3\.8\.0"):
        check_greeting(entrant, {**hello, "triton_version": "3.8.0"}, here, known)
    with pytest.raises(PeerError, match="the worker sees no CUDA device, not the card of the run"):
        check_greeting(entrant, {**hello, "device_uuid": "cpu-1"}, here, [])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--budget-seconds", "0"), "--budget-seconds and --candidates have to be over 0."),
        (("--contestants", "nobody"), "There is no contestant 'nobody'"),
        (("--cells", "no/such/cell"), "No cell matches no/such/cell"),
        (("--resume",), "There is no unfinished tune in"),
    ],
)
def test_wrong_usage_is_one_sentence(command: Command, options: tuple[str, ...], sentence: str) -> None:
    code, said = command.run(*options)
    assert code == 2
    assert sentence in said
    assert "Traceback" not in said
