"""One process behind two pipes, its locks and its budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import pytest
import torch

from producers import scratch
from producers.budget import Budget
from producers.environment import Device
from producers.errors import PeerError, RefusedError, StoppedError
from producers.locks import DeviceLock
from producers.process import Peer
from producers.recorder import scrub
from producers.tensors import create

ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "ok": True, "echo": request}), flush=True)
    if request["op"] == "quit":
        break
"""


@pytest.fixture
def start(tmp_path):
    """Starts a Python program as a peer, and ends it after the test."""
    peers = []

    def run(code: str) -> Peer:
        command = [sys.executable, "-I", "-S", "-c", code]
        log = tmp_path / "log"
        peers.append(Peer("peer", command, env=os.environ, cwd=tmp_path, log=log, poll=lambda: None))
        return peers[-1]

    yield run
    for peer in peers:
        peer.close(gently=False)


def test_a_request_is_answered(start):
    peer = start(ECHO)

    assert peer.request("hello", 10, number=3)["echo"] == {"id": 1, "op": "hello", "number": 3}
    assert peer.request("load", 10)["echo"]["id"] == 2


def test_a_request_longer_than_a_pipe_holds_arrives_whole(start):
    text = "x" * 1_000_000
    peer = start(ECHO)

    assert peer.request("hello", 10, text=text)["echo"]["text"] == text


@pytest.mark.parametrize(
    ("code", "reason", "detail"),
    [
        ("import sys; sys.exit('no module')", "worker-died", "exit code 1: no module"),
        ("import os; os.abort()", "worker-died", "signal SIGABRT"),
        ("print('hello world', flush=True); input(); input()", "worker-garbage", "hello world"),
        ("print([1], flush=True); input(); input()", "worker-garbage", "[1]"),
        ("import time; time.sleep(60)", "worker-timeout", "no answer to 'hello' within 0.5 s"),
    ],
)
def test_misbehaviour_has_a_reason(start, code, reason, detail):
    peer = start(code)

    with pytest.raises(PeerError) as failure:
        peer.request("hello", 0.5 if reason == "worker-timeout" else 10)

    assert failure.value.reason_code == reason
    assert detail in failure.value.detail
    assert failure.value.fatal


def test_a_missing_program_is_no_start(tmp_path):
    with pytest.raises(PeerError, match="worker-did-not-start: no program at python"):
        Peer("x", ["/no/such/python"], env={}, cwd=tmp_path, log=tmp_path / "log", poll=lambda: None)


def test_closing_ends_what_the_process_started(start):
    child = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    peer = start(
        f"import json\n{child}\nprint(json.dumps({{'id': 1, 'ok': True, 'child': p.pid}}), flush=True)\n"
        "input()\ninput()"
    )
    pid = peer.request("hello", 10)["child"]

    peer.close(gently=False)

    deadline = time.monotonic() + 5
    while scratch._running(pid) and not _is_zombie(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - /proc
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


def test_waiting_is_given_up_when_a_stop_is_asked(tmp_path):
    def stop() -> None:
        raise StoppedError("now")

    command = [sys.executable, "-I", "-S", "-c", "input(); input()"]
    peer = Peer("peer", command, env=os.environ, cwd=tmp_path, log=tmp_path / "log", poll=stop)
    try:
        with pytest.raises(StoppedError):
            peer.request("hello", 60)
    finally:
        peer.close(gently=False)


def test_a_lock_holds_until_its_holder_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        DeviceLock("GPU-1"),
        DeviceLock("GPU-2"),
        pytest.raises(RefusedError, match=f"process {os.getpid()}"),
        DeviceLock("GPU-1"),
    ):
        pytest.fail("entered twice")
    with DeviceLock("GPU-1"):
        pass


def test_a_budget_counts_minutes_and_money():
    now = [100.0]
    budget = Budget(minutes=10, usd=1.0, usd_per_hour=12.0, clock=lambda: now[0])

    assert budget.left_s() == 300  # 1 USD at 12 USD an hour
    budget.check(needed_s=299)
    with pytest.raises(StoppedError, match=r"used up after 0.0 minutes, 0.00 USD"):
        budget.check(needed_s=301)
    now[0] += 301
    assert budget.spent_usd == pytest.approx(301 / 300)
    with pytest.raises(StoppedError, match=r"used up after 5.0 minutes, 1.00 USD"):
        budget.check()


def test_without_limits_a_budget_never_ends():
    now = [0.0]
    budget = Budget(clock=lambda: now[0])
    now[0] = 1e9

    budget.check()
    assert budget.spent_usd is None


def test_a_signal_is_noted_and_a_second_one_ends():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    budget = Budget()
    budget.watch_signals()
    try:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StoppedError, match="SIGTERM came"):
            budget.check_signal()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_scratch_folders_of_dead_races_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale, alive = tmp_path / f"moe-race-{ended.pid}-x", tmp_path / f"moe-race-{os.getppid()}-x"
    stale.mkdir()
    alive.mkdir()

    with scratch.Scratch(Device("cpu-interpreter", "cpu-x")) as own:
        assert own.folder.is_dir()
        assert (own.folder / "imports" / "dispatch").is_dir()

    assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name]


@pytest.mark.parametrize(("free", "memory"), [(8 << 30, True), (64 << 20, False)], ids=["large", "64 MB"])
def test_scratch_is_in_memory_only_where_that_has_room(tmp_path, monkeypatch, free, memory):
    shm, disk = tmp_path / "shm", tmp_path / "disk"
    shm.mkdir()
    disk.mkdir()
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", shm)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    room = {shm: free, disk: 100 << 30}
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda path: SimpleNamespace(free=room[path]))

    with scratch.Scratch(Device("cpu-interpreter", "cpu-x")) as own:
        assert own.folder.parent == (shm if memory else disk)


def test_processes_of_our_own_find_the_packages_of_the_command_and_others_only_theirs(tmp_path, monkeypatch):
    """A command run with PYTHONPATH must not compare what its worker imports from elsewhere."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        paths = ECHO.replace('"echo": request', '"paths": sys.path')
        (folder / "paths_of.py").write_text(paths)
    monkeypatch.setenv("PYTHONPATH", str(ours))
    with scratch.Scratch(Device("cpu-interpreter", "cpu-x")) as own:
        found = []
        for peer in (
            own.process("own", "paths_of", lambda: None),
            own._start("other", "paths_of", None, (str(theirs),), lambda: None),
        ):
            found.append(peer.request("hello", 30.0)["paths"])
            peer.close()
    assert str(ours) in found[0]
    assert str(theirs) in found[1]
    assert str(ours) not in found[1]


def test_no_place_for_scratch_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", tmp_path / "none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(
        RefusedError, match=r"No folder for the drawn inputs .* \(No such file or directory\)"
    ):
        scratch.Scratch(Device("cpu-interpreter", "cpu-x"))


def test_what_is_drawn_has_its_room_before_it_is_written(tmp_path):
    create(tmp_path / "w.bin", (3, 100_000), torch.float32)
    assert (tmp_path / "w.bin").stat().st_blocks * 512 >= 1_200_000


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("No such file: '/home/me/x/kernel.py', line 3", "No such file: 'kernel.py', line 3"),
        ("deepseek-moe-16b/bf16/zipf/4 failed", "deepseek-moe-16b/bf16/zipf/4 failed"),
        ("two\n  lines", "two lines"),
        ("1/2 of /tmp/a", "1/2 of a"),
    ],
)
def test_details_keep_no_folder_of_the_machine(said, kept):
    assert scrub(said) == kept
