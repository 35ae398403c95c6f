"""The far end of the pipes: one JSON object a line in, one out (docs/architecture.md, wire format).

The protocol takes standard input and output for itself before anything else is imported, and leaves
``/dev/null`` and standard error in their place: what a library prints cannot garble a reply, and what
it reads cannot swallow a request.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from producers.failures import Failure, failure_of

Request = dict[str, Any]
Handler = Callable[[Request], Mapping[str, Any]]


class Wire:
    """The two private ends of the pipes."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self._requests = requests
        self._replies = replies

    @classmethod
    def take_over(cls) -> Wire:
        """Move standard input and output out of the reach of libraries; crashes print a stack trace."""
        requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.stdout.flush()
        os.dup2(2, 1)
        faulthandler.enable()
        return cls(requests, replies)

    def serve(self, handlers: Mapping[str, Handler], probe: Callable[[], object] | None = None) -> None:
        """Answer requests until ``quit`` or until the other end is gone.

        Args:
            handlers: op -> what answers it; a :class:`Failure` (or anything else that it raises) becomes
                an ``ok: false`` reply.
            probe: see :func:`producers.failures.failure_of`.
        """
        for line in self._requests:
            if not line.strip():
                continue
            try:
                request = json.loads(line)
                number, op = request["id"], request["op"]
            except (ValueError, KeyError, TypeError):
                self._send(
                    {"id": None, "ok": False, **_misuse("a request is one JSON object with id and op")}
                )
                continue
            if op == "quit":
                self._send({"id": number, "ok": True})
                return
            self._send({"id": number, **_answer(handlers, request, probe)})

    def _send(self, reply: Mapping[str, Any]) -> None:
        # allow_nan: a number that is none would be a bug of ours; it must not reach the lake as text.
        self._replies.write(json.dumps(reply, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        self._replies.flush()


def _answer(
    handlers: Mapping[str, Handler], request: Request, probe: Callable[[], object] | None
) -> dict[str, Any]:
    op = request["op"]
    if op not in handlers:
        return {"ok": False, **_misuse(f"no op '{op}'; known are {', '.join((*handlers, 'quit'))}")}
    try:
        return {"ok": True, **handlers[op](request)}
    except (Exception, SystemExit) as error:  # a contestant may raise anything; the process goes on
        if not isinstance(error, Failure):
            traceback.print_exc()  # the log keeps the whole story, the reply one sentence
        return {"ok": False, **failure_of(error, probe).reply()}


def _misuse(detail: str) -> dict[str, Any]:
    return Failure("worker-garbage", detail).reply()
