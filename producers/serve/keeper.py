"""Keeps one server: starts it, says when it ends, and leaves none of its processes behind, come what may.

    python -I -S keeper.py
    {"command": [...], "log": FILE, "grace_s": 20, "epitaph": {"command": [...], "env": {...}, "cwd": DIR}}

The producer starts one keeper for each server and holds the write end of its standard input. The first line
there says what to start. ``stop`` ends the server gently, ``done`` the keeper; the end of the input without it
means that the producer is gone (``kill -9`` closes it too): the server is killed at once, and the epitaph is run,
which marks the run as interrupted. A keeper whose command is null has no server and does that alone. Replies are JSON lines. As a child subreaper (prctl(2)) the keeper inherits
every orphan below it, so a process that made itself a session of its own is still found, by ancestry and never
by name.

Standard library only, and no import of the project: it starts in a few milliseconds and outlives its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_POLL_S = 0.05
_WITNESS_S = 60.0
_SPEC_S = 30.0
_KILL_S = 30.0
_ORPHAN_GRACE_S = 3.0


def descendants(ancestor: int) -> list[int]:
    """Every living process below ``ancestor``, zombies left out."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may hold anything, a parenthesis too; what follows it is plain.
            state, parent = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it ended while we looked
        if state != "Z":
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found, open_ids = [], [ancestor]
    while open_ids:
        below = children.get(open_ids.pop(), [])
        found += below
        open_ids += below
    return found


class Keeper:
    """One server and everything that it started."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._grace_s = float(spec["grace_s"])
        self.status: int | None = None
        with Path(spec["log"]).open("ab") as log:
            self._server = subprocess.Popen(
                spec["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # Safe between fork and exec: the keeper has one thread. Should it be killed itself, the
                # server goes with it.
                preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
            )
        self.pid = self._server.pid

    def reap(self) -> None:
        """Collect what ended; note the server's exit status."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)
                self._server.returncode = self.status

    def kill_all(self) -> int:
        """Kill whatever lives below this process; returns how many there were."""
        killed: set[int] = set()
        deadline = time.monotonic() + _KILL_S
        while time.monotonic() < deadline:
            self.reap()
            alive = descendants(os.getpid())
            if not alive:
                break
            for pid in alive:
                _signal(pid, signal.SIGKILL)
            killed.update(alive)
            time.sleep(_POLL_S)
        return len(killed)

    def end_gently(self, gone: Any) -> int:
        """SIGTERM to the server, and time to end; then kill what is left. ``gone()``: stop waiting."""
        _signal(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        while self.status is None and time.monotonic() < deadline and not gone():
            time.sleep(_POLL_S)
            self.reap()
        deadline = time.monotonic() + _ORPHAN_GRACE_S
        while descendants(os.getpid()) and self.status is not None and time.monotonic() < deadline:
            if gone():
                break
            time.sleep(_POLL_S)
            self.reap()
        return self.kill_all()


class Orders:
    """What the producer writes: complete lines, and whether it is still there."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ)
        self._buffer = b""
        self.closed = False

    def read(self, wait_s: float) -> str | None:
        """The next line within ``wait_s`` seconds, None without one."""
        deadline = time.monotonic() + wait_s
        while b"\n" not in self._buffer and not self.closed and (left := deadline - time.monotonic()) > 0:
            self._fill(left)
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return None
        self._buffer = rest
        return line.decode(errors="replace")

    def _fill(self, wait_s: float) -> None:
        if self._selector.select(wait_s):
            chunk = os.read(0, 4096)
            self.closed = self.closed or not chunk
            self._buffer += chunk

    def gone(self) -> bool:
        """Whether the producer closed its end."""
        if b"\n" not in self._buffer:
            self._fill(0)
        return self.closed

    def close(self, *_: object) -> None:
        """Take the producer as gone."""
        self.closed = True


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, number)


def _say(**event: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, json.dumps(event).encode() + b"\n")


def _mark(epitaph: dict[str, Any]) -> int:
    subprocess.run(
        epitaph["command"], env=epitaph["env"], cwd=epitaph["cwd"], stdin=subprocess.DEVNULL, check=False
    )
    return 0


def main() -> int:
    """Keep the server of the first line until the producer says ``done``, or is gone."""
    orders = Orders()
    first = orders.read(_SPEC_S)
    if first is None:
        return 1
    spec = json.loads(first)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # Whoever ends the keeper politely gets the same as the producer's end: no server is left.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, orders.close)
    if spec["command"] is None:  # a witness: no server
        while not orders.closed:
            if orders.read(_WITNESS_S) == "done":
                return 0
        return _mark(spec["epitaph"])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        keeper = Keeper(spec)
    except OSError as error:
        _say(event="failed", detail=f"{Path(spec['command'][0]).name}: {error.strerror}")
        return 1
    _say(event="started", pid=keeper.pid)
    told = False
    while not orders.closed:
        order = orders.read(_POLL_S)
        keeper.reap()
        if order == "done":
            keeper.kill_all()
            return 0
        if not told and order == "stop":
            _say(event="stopped", killed=keeper.end_gently(orders.gone), status=keeper.status)
            told = True
        elif not told and keeper.status is not None:
            _say(event="ended", killed=keeper.kill_all(), status=keeper.status)
            told = True
    keeper.kill_all()
    return _mark(spec["epitaph"])


if __name__ == "__main__":
    sys.exit(main())
