"""One server of an engine: started under its keeper, awaited, stopped with everything that it started."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from producers.serve.engines import HOST

KEEPER = Path(__file__).with_name("keeper.py")
_START_S = 30.0
_STOP_S = 60.0  # beyond the grace
_POLL_S = 0.25
_SPOKEN_EVERY_S = 10.0
_PROBE_S = 5.0
_LAST_LINES = 5
_LONGEST_LINE = 200
_READ_BYTES = 64 << 10
_MEMORY = re.compile(r"out ?of ?memory|OutOfMemoryError|cannot allocate memory", re.IGNORECASE)
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
# The server is on this machine: a proxy of the environment has no part in it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Inherited variables that would change what a server imports.
_NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "TRITON_INTERPRET")


class EngineError(Exception):
    """A server, or the client, did not do what it was asked: a reason code and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def environment(extra: Mapping[str, str], interpreter: str, import_paths: Sequence[str]) -> dict[str, str]:
    """What a server is started with: its interpreter's folder first on PATH, its import paths and no others."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    env |= extra
    env["PATH"] = os.pathsep.join([str(Path(interpreter).parent), env.get("PATH", os.defpath)])
    env["PYTHONUNBUFFERED"] = "1"
    if import_paths:
        env["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in import_paths)
    return env


def find_program(program: str) -> str:
    """Absolute path of a program, links unresolved: that of a virtual environment makes it one.

    Raises:
        EngineError: ``not-installed``.
    """
    found = shutil.which(program)
    if found is None:
        raise EngineError("not-installed", f"there is no program '{Path(program).name}'")
    return os.path.abspath(found)  # noqa: PTH100 - resolve() would follow the link


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Server:
    """A running server.

    Args:
        name: how messages call it.
        command: program and arguments.
        env: its whole environment.
        cwd: its working folder.
        log: file that takes what it writes.
        port: where it will listen.
        epitaph: command, env and cwd of what marks the run as interrupted, should this process vanish.
        poll: called while waiting; raises to give up.
        grace_s: how long it may take to end when asked to.

    Raises:
        EngineError: ``server-did-not-start``.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        port: int,
        epitaph: Mapping[str, Any],
        poll: Callable[[], None],
        grace_s: float,
    ) -> None:
        self.name, self.port, self.log = name, port, log
        self.target = f"http://{HOST}:{port}"
        self._poll, self._grace_s = poll, grace_s
        self._ended: dict[str, Any] | None = None
        self._buffer = b""
        spec = {"command": list(command), "log": str(log), "grace_s": grace_s, "epitaph": dict(epitaph)}
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(KEEPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,  # Ctrl-C is for the producer
            bufsize=0,
        )
        assert self._keeper.stdout is not None  # noqa: S101 - for the type checker, PIPE was given
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._keeper.stdout, selectors.EVENT_READ)
        self._order(json.dumps(spec))
        event = self._next(_START_S)
        if event is None or event["event"] != "started":
            self.close()
            raise EngineError(
                "server-did-not-start", (event or {}).get("detail", "its keeper did not answer")
            )
        self.pid = int(event["pid"])

    def alive(self, wait_s: float = 0.0) -> bool:
        """Whether the server runs, and has not ended after ``wait_s`` either."""
        if self._ended is None:
            self._ended = self._next(wait_s)
        return self._ended is None

    def wait_healthy(self, path: str, timeout_s: float, say: Callable[[str], None]) -> float:
        """Wait until ``path`` answers 200; returns the seconds since the call.

        Raises:
            EngineError: ``health-timeout``, or what :meth:`died` says.
        """
        began = spoken = time.monotonic()
        answer = "no answer yet"
        while True:
            self._poll()
            if not self.alive():
                raise self.died("before it was ready")
            answer = probe(self.target + path)
            now = time.monotonic()
            if answer == "200":
                return now - began
            if now - began > timeout_s:
                raise self.error("health-timeout", f"not ready after {timeout_s:g} s ({answer})")
            if now - spoken >= _SPOKEN_EVERY_S:
                spoken = now
                last = self.last_lines(1)
                say(f"{self.name}: starting, {now - began:.0f} s, {answer}{': ' + last if last else ''}")
            time.sleep(_POLL_S)

    def error(self, code: str, detail: str) -> EngineError:
        """An error of this server with the last lines of its log."""
        last = self.last_lines()
        return EngineError(code, detail + (f"; log: {last}" if last else ""))

    def died(self, when: str) -> EngineError:
        """Why a server that is gone ended: out of memory, not installed, or by itself."""
        status = (self._ended or {}).get("status")
        text = self._tail()
        missing = _NO_MODULE.search(text)
        if _MEMORY.search(text):
            return self.error("out-of-memory", f"ended {when} with status {status}")
        if missing:
            return self.error("not-installed", f"no module named {missing[1]}")
        return self.error("server-died", f"ended {when} with status {status}")

    def last_lines(self, count: int = _LAST_LINES) -> str:
        """The last lines of the log, in one."""
        lines = [line.strip()[:_LONGEST_LINE] for line in self._tail().splitlines() if line.strip()]
        return " | ".join(lines[-count:])

    def stop(self) -> int:
        """End the server gently, then by force; returns how many of its processes had to be killed."""
        if self._ended is None:
            self._order("stop")
            self._ended = self._next(self._grace_s + _STOP_S)
        killed = int((self._ended or {}).get("killed") or 0)
        self.close()
        return killed

    def close(self) -> None:
        """Let the keeper go, which kills whatever is left."""
        self._order("done")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(timeout=_STOP_S)
        self._selector.close()
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _order(self, word: str) -> None:
        assert self._keeper.stdin is not None  # noqa: S101 - as above
        with contextlib.suppress(OSError, ValueError):  # the keeper is gone, and so is its server
            self._keeper.stdin.write(f"{word}\n".encode())

    def _next(self, wait_s: float) -> dict[str, Any] | None:
        """The keeper's next event within ``wait_s``; a keeper that is gone counts as an end."""
        deadline = time.monotonic() + wait_s
        assert self._keeper.stdout is not None  # noqa: S101 - as above
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                return None
            chunk = self._keeper.stdout.read(4096)
            if not chunk:
                return {"event": "ended", "status": None}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def _tail(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def probe(url: str) -> str:
    """What a GET of ``url`` gives: the HTTP status, or the kind of failure."""
    try:
        with _OPENER.open(url, timeout=_PROBE_S) as response:
            return str(response.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return type(reason).__name__
