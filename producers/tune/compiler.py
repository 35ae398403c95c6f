"""A process that compiles Triton kernels beforehand, several at a time, each in a child of its own.

Jobs come as JSON lines on standard input (:class:`producers.tune.kernels.Job` and ``urgent``), answers go as
JSON lines to standard output: ``{"job": id, "error": text or null}``. It imports the kernels' modules once
and never touches a device, so its children share the import by fork.

An error is what a launch must not repeat: a crash of the compiler, or a compilation without end. A kernel that
merely fails to compile here is left to its launch, which fails in the same way or does not: what counts is there.

    python -m producers.tune.compiler JOBS_AT_A_TIME
"""

from __future__ import annotations

import json
import multiprocessing
import os
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from typing import Any

from producers.tune.kernels import Job, compile_job

LONGEST_COMPILATION_S = 120.0
_POLL_S = 0.05
_NICENESS = 10  # a process that times something goes first


@dataclass
class _Child:
    job: Job
    process: ForkProcess
    deadline: float


class Compiler:
    """Runs jobs in forked children.

    Args:
        at_a_time: how many children there may be.
    """

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time
        self._waiting: deque[Job] = deque()
        self._children: list[_Child] = []
        self._fork = multiprocessing.get_context("fork")

    @property
    def busy(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self._waiting or self._children)

    def add(self, job: Job, *, urgent: bool) -> None:
        """Queue a job, before all that wait if it is urgent."""
        if urgent:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)

    def step(self) -> list[tuple[Job, str | None]]:
        """Start what can be started; returns the jobs that ended, with what went wrong or None."""
        while self._waiting and len(self._children) < self._at_a_time:
            job = self._waiting.popleft()
            try:
                # Here and not in the child: the next one has it already. An engine takes seconds to import.
                __import__(job.module)
            except Exception:  # whatever the module raises here, its contestant has it
                traceback.print_exc()
                return [(job, None)]
            process = self._fork.Process(target=_child, args=(job,), daemon=True)
            process.start()
            self._children.append(_Child(job, process, time.monotonic() + LONGEST_COMPILATION_S))
        ended = []
        for child in list(self._children):
            if child.process.is_alive() and time.monotonic() < child.deadline:
                continue
            ended.append((child.job, self._end(child)))
            self._children.remove(child)
        return ended

    def _end(self, child: _Child) -> str | None:
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
            return f"the compiler took over {LONGEST_COMPILATION_S:.0f} s"
        child.process.join()
        code = child.process.exitcode or 0
        return f"the compiler ended with {signal.Signals(-code).name}" if code < 0 else None


def _child(job: Job) -> None:
    os.nice(_NICENESS)
    try:
        compile_job(job)
    except BaseException:  # the log has it; see the module
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def serve(at_a_time: int) -> None:
    """Compile what comes on standard input until it is closed and everything is done."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    compiler = Compiler(at_a_time)
    selector = selectors.DefaultSelector()
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    selector.register(requests, selectors.EVENT_READ)
    buffer, is_open = b"", True
    while is_open or compiler.busy:
        if is_open and selector.select(_POLL_S if compiler.busy else None):
            chunk = requests.read(1 << 20)
            is_open = bool(chunk)
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                request: dict[str, Any] = json.loads(line)
                urgent = request.pop("urgent")
                compiler.add(Job(**request), urgent=urgent)
        elif not is_open:
            time.sleep(_POLL_S)
        for job, error in compiler.step():
            answers.write(json.dumps({"job": job.job_id, "error": error}) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
