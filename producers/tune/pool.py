"""The compiler process as a worker of :mod:`producers.tune.worker` sees it: jobs in, done or not, errors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict
from queue import SimpleQueue
from typing import IO

from producers.tune.kernels import Job


class Pool:
    """A :mod:`producers.tune.compiler` under this interpreter, started with the first job.

    Args:
        at_a_time: kernels compiled side by side.
    """

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time
        self._requests: SimpleQueue[str] | None = None
        self._asked: set[str] = set()
        # Both are written by the threads at the pipes alone.
        self._ended: dict[str, str | None] = {}
        self._gone = False

    def submit(self, jobs: Iterable[Job], *, urgent: bool) -> None:
        """Queue jobs that were not queued before; never waits."""
        for job in jobs:
            if self._gone or job.job_id in self._asked:
                continue
            self._asked.add(job.job_id)
            if self._requests is None:
                self._requests = SimpleQueue()
                threading.Thread(target=self._run, args=(self._requests,), daemon=True).start()
            self._requests.put(json.dumps({**asdict(job), "urgent": urgent}) + "\n")

    def done(self, job_ids: Iterable[str]) -> bool:
        """Whether there is nothing to wait for; a kernel that nobody compiled is compiled at its launch."""
        return self._gone or all(each in self._ended or each not in self._asked for each in job_ids)

    def error(self, job_ids: Iterable[str]) -> str | None:
        """Why one of the jobs must not be launched, None where nothing speaks against it (yet)."""
        return next((text for each in job_ids if (text := self._ended.get(each)) is not None), None)

    def _run(self, requests: SimpleQueue[str]) -> None:
        """Start the process and hand it the requests; where that fails, the launches compile."""
        command = [sys.executable, "-m", "producers.tune.compiler", str(self._at_a_time)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdin is not None  # noqa: S101 - for the type checker, PIPE was given
            assert process.stdout is not None  # noqa: S101 - likewise
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()
            while True:
                process.stdin.write(requests.get())
                process.stdin.flush()
        except OSError:
            self._gone = True

    def _read(self, answers: IO[str]) -> None:
        for line in answers:
            answer = json.loads(line)
            self._ended[answer["job"]] = answer["error"]
        self._gone = True
