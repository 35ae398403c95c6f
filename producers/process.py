"""Worker processes: start one, ask it one thing at a time over JSON lines, and leave none behind.

The protocol is in docs/architecture.md. Whatever a process does (dies, hangs, prints garbage), the
caller gets a :class:`~producers.errors.PeerError` with a reason code and can go on without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from producers.errors import PeerError

Reply = dict[str, Any]

# How long a wait may last before a pending Ctrl-C or a spent budget is looked at.
_POLL_S = 0.25
_QUIT_GRACE_S = 5.0
_LONGEST_REPLY_BYTES = 64 << 20
_SHOWN_GARBAGE = 80

# A worker must not outlive a coordinator that was killed. The parent-death signal survives exec, so a
# small launcher sets it and becomes the worker; doing this between fork and exec of the coordinator is
# not safe once it has threads. The parent is checked afterwards because it may have died before.
_LAUNCHER = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Peer:
    """One process at the other end of two pipes.

    Args:
        name: how messages call it.
        command: program and arguments; the program is an absolute path.
        env: its whole environment.
        cwd: its working folder (a neutral one: a folder with a ``dispatch`` in it would be imported).
        log: file that takes its standard error.
        poll: called while waiting; raises to give up (Ctrl-C, budget).

    Raises:
        PeerError: ``worker-did-not-start``, the program is missing or may not be run.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        poll: Callable[[], None],
    ) -> None:
        self.name = name
        self._log = log
        self._poll = poll
        self._last_id = 0
        self._asked = ""
        self._buffer = bytearray()
        program = Path(command[0])
        if not (program.is_file() and os.access(program, os.X_OK)):
            raise PeerError("worker-did-not-start", f"no program at {program.name}", fatal=True)
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]
        try:
            with log.open("ab") as stderr:
                self._process = subprocess.Popen(
                    launcher if sys.platform == "linux" else list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=dict(env),
                    cwd=cwd,
                    start_new_session=True,  # Ctrl-C is for the coordinator, which ends its workers itself
                    bufsize=0,
                )
        except OSError as error:
            raise PeerError(
                "worker-did-not-start", f"{program.name}: {error.strerror}", fatal=True
            ) from error
        self._selector = selectors.DefaultSelector()
        assert self._process.stdin is not None  # noqa: S101 - for the type checker, PIPE was given
        assert self._process.stdout is not None  # noqa: S101 - likewise
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._selector.register(self._stdout, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """Process id; also the id of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def send(self, op: str, **fields: Any) -> None:
        """Ask for ``op``; :meth:`receive` gets the answer.

        Raises:
            PeerError: ``worker-died``.
        """
        self._last_id += 1
        self._asked = op
        line = json.dumps({"id": self._last_id, "op": op, **fields}, separators=(",", ":")) + "\n"
        data = memoryview(line.encode())
        try:
            while data:  # an unbuffered pipe may take less than the whole line
                data = data[self._stdin.write(data) or 0 :]
        except OSError as error:
            raise self._gone() from error

    def receive(self, timeout_s: float) -> Reply:
        """The answer to the last request.

        Raises:
            PeerError: ``worker-died``, ``worker-timeout`` or ``worker-garbage`` (fatal), or what the
                process itself said in an ``ok: false`` reply.
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            self._poll()
            left = deadline - time.monotonic()
            if left <= 0:
                detail = f"no answer to '{self._asked}' within {timeout_s:g} s"
                raise PeerError("worker-timeout", detail, fatal=True)
            if not self._selector.select(min(left, _POLL_S)):
                continue
            chunk = self._stdout.read(1 << 16)
            if not chunk:
                raise self._gone()
            self._buffer += chunk
            if len(self._buffer) > _LONGEST_REPLY_BYTES:
                raise PeerError("worker-garbage", f"endless answer to '{self._asked}'", fatal=True)
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return self._parse(line)

    def request(self, op: str, timeout_s: float, **fields: Any) -> Reply:
        """:meth:`send`, then :meth:`receive`."""
        self.send(op, **fields)
        return self.receive(timeout_s)

    def _parse(self, line: bytes) -> Reply:
        try:
            # NaN and infinity are no JSON and never enter the lake: a value that is not a number is none.
            reply = json.loads(line, parse_constant=lambda _: None)
        except ValueError:
            reply = None
        if not isinstance(reply, dict) or reply.get("id") != self._last_id or "ok" not in reply:
            shown = line[:_SHOWN_GARBAGE].decode(errors="replace")
            raise PeerError("worker-garbage", f"answered '{self._asked}' with: {shown}", fatal=True)
        if reply["ok"] is not True:
            raise PeerError(
                str(reply.get("reason_code") or "crashed"),
                str(reply.get("detail") or f"'{self._asked}' failed without a detail"),
                fatal=bool(reply.get("sticky")),
                fault=reply.get("fault"),
            )
        return reply

    def _gone(self) -> PeerError:
        try:
            code = self._process.wait(timeout=_QUIT_GRACE_S)
        except subprocess.TimeoutExpired:
            return PeerError("worker-died", f"closed its pipe during '{self._asked}'", fatal=True)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last = self.last_words()
        detail = f"ended during '{self._asked}' with {how}" + (f": {last}" if last else "")
        return PeerError("worker-died", detail, fatal=True)

    def last_words(self) -> str:
        """The last line that it wrote to standard error, or ''."""
        try:
            lines = self._log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def close(self, *, gently: bool = True) -> None:
        """End the process and everything it started; with ``gently``, ask it to quit first."""
        if gently and self.alive:
            with contextlib.suppress(PeerError):
                self.send("quit")
            with contextlib.suppress(OSError):
                self._stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_QUIT_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
