"""A worker and referee without torch: speaks the protocol, and misbehaves on request.

Run as ``python fake_worker.py ROLE`` with ROLE ``producers.worker`` or ``producers.referee``. A contestant's
options may hold ``faults``: a list of {op, how, at}; the fault happens at the at-th (from 0) request of
that op in this process, at every one without ``at``. ``how`` is die, hang, garbage, out-of-step, refuse
(with code), verdict (a refused verdict with code), nan (times), inputs (another hash), or sticky.
``time_us`` is what a sample takes; ``version`` what hello reports.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

Message = dict[str, Any]


def sha256(*parts: object) -> str:
    """Hash of the texts of ``parts``."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def referee(request: Message) -> Message:
    """Answers of the referee; FAKE_DRAWS is JSON: cell_id or precision of weights -> fault as above."""
    about = request["cell"]["cell_id"] if request["op"] == "cell" else request.get("precision")
    fault = json.loads(os.environ.get("FAKE_DRAWS", "{}")).get(about)
    if fault:
        return Worker.spoil({}, fault)
    if request["op"] == "cell":
        cell = request["cell"]
        return {
            "folder": "cell",
            "inputs_sha256": sha256(cell["cell_id"], request["seed"]),
            "distinct_experts": 2,
            "max_expert_load": cell["tokens"],
            "weight_bytes": 1000,
            "io_bytes": 100,
            "flops": 10_000,
        }
    return {"folder": "weights", "sha256": {}} if request["op"] == "weights" else {"pid": os.getpid()}


class Worker:
    """Answers of a worker."""

    def __init__(self) -> None:
        self.options: Message = {}
        self.asked: Counter[str] = Counter()

    def answer(self, request: Message) -> Message:
        """The reply to one request, spoilt where a fault is due."""
        op = request["op"]
        if op == "hello":
            self.options = request["options"]
        count = self.asked[op]
        self.asked[op] += 1
        reply = self.proper(op, request)
        for fault in self.options.get("faults", []):
            if fault["op"] == op and fault.get("at", count) == count:
                reply = self.spoil(reply, fault)
        return reply

    def proper(self, op: str, request: Message) -> Message:
        """What a good worker says."""
        if op == "hello":
            return {
                "python_version": "3",
                "package_version": self.options.get("version", "1"),
                "pid": os.getpid(),
            }
        if op == "prepare":
            passed = {"status": "passed", "relative_error": 0.001, "tolerance": request["tolerance"]}
            return {
                "inputs_sha256": sha256(request["cell"]["cell_id"], self.options.get("seed", 0)),
                "verdicts": dict.fromkeys(request["modes"], passed),
            }
        if op == "sample":
            time_us = self.options.get("time_us", 10.0)
            return {"times_us": [time_us + i / 100 for i in range(request["samples"])], "l2_state": "none"}
        if op == "finish":
            return {"verdicts": {mode: {"status": "passed"} for mode in self.options.get("modes", ["eager"])}}
        return {}

    @staticmethod
    def spoil(reply: Message, fault: Message) -> Message:
        """``reply`` with the fault, if the process lives on."""
        how = fault["how"]
        if how == "die":
            sys.stderr.write("about to die in /home/somebody/secret/kernel.py\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hang":
            time.sleep(3600)
        if how == "garbage":
            return {"raw": "loading model... 100%"}
        if how == "out-of-step":
            return {"raw": '{"id": -5, "ok": true}'}
        if how == "nan":
            return {**reply, "times_us": [float("nan")] * len(reply["times_us"])}
        if how == "inputs":
            return {**reply, "inputs_sha256": "0" * 64}
        if how == "verdict":
            refused = {"status": "refused", "reason_code": fault["code"], "detail": "on request"}
            return {**reply, "verdicts": dict.fromkeys(reply["verdicts"], refused)}
        return {"ok": False, "reason_code": fault["code"], "detail": "on request", "sticky": how == "sticky"}


def main() -> None:
    """Answer until quit or end of input."""
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        reply = referee(request) if sys.argv[1].endswith("referee") else worker.answer(request)
        text = reply.get("raw") or json.dumps({"id": request["id"], "ok": True, **reply})
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        if request["op"] == "quit":
            return


if __name__ == "__main__":
    main()
