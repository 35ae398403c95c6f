"""A contestant's worker: verifies it and times it, one request at a time over JSON lines.

Run by the contestant's own interpreter, ``python -m producers.worker`` (or by path). Imports torch and
the contestant, nothing of the data side. The protocol is in docs/architecture.md, the checks in
:mod:`producers.verify`, the clock in :mod:`producers.timing`.
"""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from producers import device as device_facts
from producers.contestants.base import Contestant, Inputs, Launch, load_class
from producers.failures import Failure, failure_of
from producers.jsonlines import Request, Wire
from producers.tensors import inputs_sha256, load, sha256_of
from producers.timing import Eager, Flush, Graph, Timer
from producers.verify import Unchanged, check_form, judge, poison_bytes, repeatability
from producers.workloads import Cell

_CHECKED_CALLS = 3
_ALL_MODES = "all"
# Bytes of workspaces for each (token, expert) pair and each of its H + I numbers: several float32 copies.
_WORKSPACE_BYTES_EACH = 16

Verdict = dict[str, Any]


@dataclass
class Case:
    """One cell as this worker received it, and the timers of the modes that passed.

    Attributes:
        cell: the cell.
        inputs: what the contestant is given.
        reference: [M, H] float32.
        tolerance: largest relative error against it.
        unchanged: the inputs' checksums before the contestant saw them.
        timers: mode -> what times it.
    """

    cell: Cell
    inputs: Inputs
    reference: torch.Tensor
    tolerance: float
    unchanged: Unchanged
    timers: dict[str, Timer] = field(default_factory=dict)

    def judge(self, output: torch.Tensor) -> Verdict:
        """The verdict on one output."""
        check_form(output, self.reference, self.inputs.x.dtype)
        judgement = judge(output, self.reference, self.tolerance)
        columns = {
            n: v if v is not None and math.isfinite(v) else None for n, v in judgement.columns().items()
        }
        failure = judgement.failure(self.tolerance)
        verdict = {"status": "passed"} if failure is None else failure.verdict()
        return {**verdict, **columns, "output_sha256": sha256_of(output)}


class Worker:
    """Holds one contestant, the weights of one precision and one prepared cell."""

    def __init__(self) -> None:
        self.device = device_facts.pick()
        self._contestant: Contestant | None = None
        self._weights: dict[str, torch.Tensor] = {}
        self._weight_hashes: dict[str, str] = {}
        self._case: Case | None = None
        self._flush: Flush | None = None

    def handlers(self) -> dict[str, Callable[[Request], Mapping[str, Any]]]:
        """Op -> method."""
        ops = (self.hello, self.load, self.prepare, self.sample, self.finish, self.release)
        return {op.__name__: op for op in ops}

    def probe(self) -> None:
        """Raise if the device's context is gone."""
        device_facts.synchronise(self.device)

    def hello(self, request: Request) -> dict[str, Any]:
        """Import the contestant and say what runs where."""
        contestant = load_class(str(request["contestant"]))(**request.get("options") or {})
        self._contestant = contestant
        return {
            **device_facts.facts(self.device),
            "package_version": contestant.versions().get(contestant.package),
            "source_sha256": contestant.source_sha256(),
        }

    def load(self, request: Request) -> dict[str, Any]:
        """Take the weights of a precision; answer what was received, read back from the device."""
        self.release(request)
        self._weights = {}
        self._collect()
        self._weights = load(Path(request["folder"]), self.device)
        self._weight_hashes = {name: sha256_of(tensor) for name, tensor in self._weights.items()}
        return {"sha256": self._weight_hashes}

    def prepare(self, request: Request) -> dict[str, Any]:
        """Verify the contestant in a cell and get every mode ready; refusals are verdicts."""
        if self._contestant is None or not self._weights:
            raise Failure("worker-garbage", "asked to prepare before hello and load")
        self.release(request)
        tensors = load(Path(request["folder"]), self.device)
        reference = tensors.pop("reference")
        hashes = {name: sha256_of(tensor) for name, tensor in tensors.items()}
        received = inputs_sha256({**self._weight_hashes, **hashes})
        inputs = Inputs(**self._weights, **tensors)
        tolerance = float(request["tolerance"])
        case = Case(
            Cell.from_message(request["cell"]), inputs, reference, tolerance, Unchanged(inputs.named())
        )
        try:
            verdicts = self._verify(self._contestant, case, list(request["modes"]))
        except (Exception, SystemExit) as error:  # whatever the contestant raises is its verdict
            verdicts = {_ALL_MODES: self._refusal(error)}
        self._case = case
        common = {"tolerance": tolerance, "inputs_sha256": received, **_facts(self._contestant)}
        return {
            "inputs_sha256": received,
            "verdicts": {mode: {**common, **verdict} for mode, verdict in verdicts.items()},
        }

    def _verify(self, contestant: Contestant, case: Case, modes: list[str]) -> dict[str, Verdict]:
        """Verdict by mode, or one for all modes where it fails before any.

        Raises:
            Exception: anything that the contestant raises, or the Failure that its output is.
        """
        if case.cell.tokens == 0:
            raise Failure("unsupported", "a cell of zero tokens has nothing to time")
        reason = contestant.supports(case.cell)
        if reason is not None:
            raise Failure("unsupported", reason)
        launch = contestant.prepare(case.cell, case.inputs)
        self.probe()
        eager = Eager(launch, self.device, self._flusher(), self._poison_bytes(case.cell))
        verdict = self._check_calls(eager, case)
        if verdict["status"] != "passed":
            return {_ALL_MODES: verdict}
        verdicts = {}
        for mode in modes:
            if mode == "eager":
                case.timers[mode], verdicts[mode] = eager, verdict
            else:
                own = self._capture(mode, contestant, launch, case)
                verdicts[mode] = {"repeatability": verdict["repeatability"], **own}
        return verdicts

    def _check_calls(self, eager: Eager, case: Case) -> Verdict:
        """Three calls on poisoned memory: each output judged, all compared, inputs untouched."""
        outputs = []
        for _ in range(_CHECKED_CALLS):
            output = eager.check_run()
            self.probe()
            case.unchanged.check()
            verdict = case.judge(output)
            if verdict["status"] != "passed":
                return verdict
            outputs.append(output.clone())
        verdict["repeatability"] = repeatability(outputs, case.reference, case.tolerance)
        if verdict["repeatability"] == "no":
            detail = f"{_CHECKED_CALLS} calls on the same inputs gave outputs too far apart"
            verdict.update(Failure("not-repeatable", detail).verdict())
        return verdict

    def _capture(self, mode: str, contestant: Contestant, launch: Launch, case: Case) -> Verdict:
        """Capture the launch in a graph and judge a replay; the timer is kept where it passes."""
        try:
            if mode != "graph":
                raise Failure("unsupported", f"no timing mode '{mode}'; known are graph and eager")
            if self.device.type != "cuda":
                raise Failure("unsupported", "there are no CUDA graphs on a CPU")
            if not contestant.capturable:
                raise Failure("unsupported", "its calls synchronise with the host and cannot be captured")
            timer = Graph(launch, self.device, self._flusher(), self._poison_bytes(case.cell))
            output = timer.check_run()
            self.probe()
            case.unchanged.check()
            verdict = case.judge(output)
        except (Exception, SystemExit) as error:
            return self._refusal(error)
        if verdict["status"] == "passed":
            case.timers[mode] = timer
        return verdict if timer.launches is None else {**verdict, "launches": timer.launches}

    def sample(self, request: Request) -> dict[str, Any]:
        """Time executions in one mode."""
        mode = request["mode"]
        if self._case is None or mode not in self._case.timers:
            raise Failure("worker-garbage", f"asked to sample mode '{mode}', which is not prepared")
        times = self._case.timers[mode].sample(int(request["samples"]))
        self.probe()
        return {"times_us": times, "l2_state": self._flusher().state}

    def finish(self, request: Request) -> dict[str, Any]:  # noqa: ARG002 - a handler
        """Judge the output of each mode's last timed execution, and that the inputs are untouched."""
        case, verdicts = self._case, {}
        if case is None:
            raise Failure("worker-garbage", "asked to finish a cell that was not prepared")
        for mode, timer in case.timers.items():
            if timer.output is None or not timer.sampled:
                continue  # nothing was timed
            try:
                case.unchanged.check()
                verdict = case.judge(timer.output)
            except Exception as error:  # a fault of the timed launches may surface here
                verdict = self._refusal(error)
            verdicts[mode] = {"tolerance": case.tolerance, **verdict}
        return {"verdicts": verdicts}

    def release(self, request: Request) -> dict[str, Any]:  # noqa: ARG002 - a handler
        """Forget the cell and give its memory back."""
        self._case = None
        self._collect()
        return {}

    def _flusher(self) -> Flush:
        if self._flush is None:
            self._flush = Flush(self.device)
        return self._flush

    def _poison_bytes(self, cell: Cell) -> int:
        slots = cell.tokens * cell.top_k
        return poison_bytes(slots * (cell.hidden + cell.intermediate) * _WORKSPACE_BYTES_EACH, self.device)

    def _refusal(self, error: BaseException) -> Verdict:
        if not isinstance(error, Failure):
            traceback.print_exception(error)  # the log keeps the whole story, the verdict one sentence
        return failure_of(error, self.probe).verdict()

    def _collect(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _facts(contestant: Contestant) -> dict[str, Any]:
    known = ("config_source", "config_json", "tuned_triton_version", "launches")
    try:
        facts = contestant.facts()
    except Exception:  # a label is missing, the measurement is not
        return {}
    return {name: facts[name] for name in known if facts.get(name) is not None}


def main() -> None:
    """Serve until the coordinator is done or gone."""
    wire = Wire.take_over()
    torch.set_grad_enabled(False)  # as in serving
    worker = Worker()
    wire.serve(worker.handlers(), worker.probe)


if __name__ == "__main__":
    main()
