"""The compiler process as a worker of :mod:`producers.tune.worker` sees it: jobs in, done or not, errors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict

from producers.tune.kernels import Job


class Pool:
    """A :mod:`producers.tune.compiler` under this interpreter, started with the first job.

    Args:
        at_a_time: kernels compiled side by side.
    """

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time
        self._process: subprocess.Popen[str] | None = None
        self._asked: set[str] = set()
        self._ended: dict[str, str | None] = {}  # written by the reader's thread alone
        self._gone = False

    def submit(self, jobs: Iterable[Job], *, urgent: bool) -> None:
        """Queue jobs that were not queued before."""
        for job in jobs:
            if self._gone or job.job_id in self._asked:
                continue
            self._asked.add(job.job_id)
            request = {**asdict(job), "urgent": urgent}
            try:
                process = self._process = self._process or self._start()
                assert process.stdin is not None  # noqa: S101 - for the type checker, PIPE was given
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            except OSError:  # it ended: what is left is compiled where it is launched
                self._gone = True

    def done(self, job_ids: Iterable[str]) -> bool:
        """Whether there is nothing to wait for; a kernel that nobody compiled is compiled at its launch."""
        return self._gone or all(each in self._ended or each not in self._asked for each in job_ids)

    def error(self, job_ids: Iterable[str]) -> str | None:
        """What went wrong with one of the jobs, None where nothing did (yet)."""
        return next((text for each in job_ids if (text := self._ended.get(each)) is not None), None)

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "producers.tune.compiler", str(self._at_a_time)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - for the type checker, PIPE was given
        for line in process.stdout:
            answer = json.loads(line)
            self._ended[answer["job"]] = answer["error"]
        self._gone = True
