"""A contestant's process in a tuning run: names candidates, checks and times one configuration at a time.

Speaks the protocol of :mod:`producers.worker` with other requests; run by the contestant's own interpreter.

    hello       contestant, options              as a race's worker
    candidates  cell                             -> default, candidates
    neighbours  cell, config                     -> candidates
    compile     cell, configs, urgent, at_a_time -> -; in other processes, at_a_time kernels side by side
    compiled    cell, configs                    -> done {config: bool}
    load        folder, precision                as a race's worker
    enter       cells [{folder, cell}], tolerance -> inputs_sha256 {cell_id: hex}
    trial       config, samples                  -> outcomes {cell_id: times_us, relative_error or a refusal}
    leave       -                                -> outcomes {cell_id: a refusal}, of inputs written into
    tables      folder, chosen [{cell, config}]  -> files

Configurations travel as canonical JSON texts.
"""

from __future__ import annotations

import json
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from producers.contestants.base import Inputs, config_text
from producers.contestants.tunable import Chip, Chosen, Config, Tunable
from producers.device import version_of
from producers.failures import Failure
from producers.jsonlines import Request, Wire
from producers.tensors import dtype_of, inputs_sha256, load, sha256_of
from producers.timing import Eager, Graph, Timer
from producers.tune.kernels import jobs_of
from producers.tune.pool import Pool
from producers.verify import Unchanged, check_form, judge
from producers.worker import Case, Verdict, Worker
from producers.workloads import Cell, activation_dtype, weight_family

# Prepared executions that are kept for another trial; each graph holds its workspaces.
_MOST_TIMERS = 24
# An H100's and an H200's, where there is no device that says it.
_USUAL_CHIP = Chip(shared_bytes=232_448, sm_count=132)


class TuneWorker(Worker):
    """Holds one contestant, the weights of one precision and the cells of one problem."""

    def __init__(self) -> None:
        super().__init__()
        self._tunable: Tunable | None = None
        self._pool: Pool | None = None  # a process that took another's place compiles at its launches
        self._jobs: dict[tuple[str, str], list[str]] = {}  # (cell_id, config) -> job ids
        self._blank: dict[tuple[Any, ...], Inputs] = {}
        self._cases: dict[str, Case] = {}
        self._timers: OrderedDict[tuple[str, str], Timer] = OrderedDict()

    def handlers(self) -> dict[str, Callable[[Request], Mapping[str, Any]]]:
        """Op -> method."""
        ops = (
            self.hello, self.candidates, self.neighbours, self.compile, self.compiled, self.load, self.enter,
            self.trial, self.leave, self.tables, self.release,
        )  # fmt: skip
        return {op.__name__: op for op in ops}

    def hello(self, request: Request) -> dict[str, Any]:
        """As in a race; a contestant without configurations is refused."""
        reply = super().hello(request)
        contestant = self._contestant
        if not isinstance(contestant, Tunable):
            name = type(contestant).__name__
            raise Failure("unsupported", f"{name} has no configurations to choose from")
        self._tunable = contestant
        return reply

    def candidates(self, request: Request) -> dict[str, Any]:
        """What runs as shipped, and what to try."""
        tunable, cell = self._greeted(), Cell.from_message(request["cell"])
        reason = tunable.supports(cell)
        if reason is not None:
            raise Failure("unsupported", reason)
        default = tunable.default(cell)
        return {
            "default": config_text(default),
            "candidates": _distinct(tunable.candidates(cell, self._chip()), default),
        }

    def neighbours(self, request: Request) -> dict[str, Any]:
        """What to try around a configuration."""
        tunable, cell = self._greeted(), Cell.from_message(request["cell"])
        config = json.loads(request["config"])
        return {"candidates": _distinct(tunable.neighbours(cell, config, self._chip()), config)}

    def compile(self, request: Request) -> dict[str, Any]:
        """Have the kernels of configurations compiled in other processes."""
        if self.device.type != "cuda":
            return {}
        cell = Cell.from_message(request["cell"])
        self._pool = self._pool or Pool(int(request["at_a_time"]))
        for text in request["configs"]:
            try:
                launch = self._greeted().prepare_with(cell, self._blank_inputs(cell), json.loads(text))
                jobs = jobs_of(launch)
            except Exception:
                traceback.print_exc()  # its trial will say the same, where it is recorded
                continue
            self._pool.submit(jobs, urgent=bool(request["urgent"]))
            self._jobs[cell.cell_id, text] = [job.job_id for job in jobs]
        self.probe()
        return {}

    def compiled(self, request: Request) -> dict[str, Any]:
        """Which configurations need not be waited for."""
        cell_id = Cell.from_message(request["cell"]).cell_id
        pool = self._pool
        return {
            "done": {
                text: pool is None or pool.done(self._jobs.get((cell_id, text), []))
                for text in request["configs"]
            }
        }

    def enter(self, request: Request) -> dict[str, Any]:
        """Take the cells of a problem; their weights were loaded."""
        if not self._weights:
            raise Failure("worker-garbage", "asked to enter before load")
        self.release(request)
        received = {}
        for each in request["cells"]:
            cell, tensors = Cell.from_message(each["cell"]), load(Path(each["folder"]), self.device)
            reference = tensors.pop("reference")
            hashes = {name: sha256_of(tensor) for name, tensor in tensors.items()}
            received[cell.cell_id] = inputs_sha256({**self._weight_hashes, **hashes})
            inputs = Inputs(**self._weights, **tensors)
            unchanged = Unchanged(inputs.named())
            self._cases[cell.cell_id] = Case(cell, inputs, reference, float(request["tolerance"]), unchanged)
        return {"inputs_sha256": received}

    def trial(self, request: Request) -> dict[str, Any]:
        """Check and time a configuration in every cell of the problem; after a refusal no further cell."""
        text, outcomes = str(request["config"]), {}
        for cell_id, case in self._cases.items():
            error = self._pool.error(self._jobs.get((cell_id, text), [])) if self._pool else None
            try:
                if error is not None:
                    raise Failure("crashed", f"it is not launched: {error}")
                outcomes[cell_id] = self._timed(case, text, int(request["samples"]))
            except (Exception, SystemExit) as raised:  # whatever it raises is its verdict
                self._timers.pop((cell_id, text), None)
                outcomes[cell_id] = self._refusal(raised)
                break
        return {"outcomes": outcomes}

    def leave(self, request: Request) -> dict[str, Any]:
        """Compare the inputs with those of before, and forget the problem."""
        outcomes = {}
        for cell_id, case in self._cases.items():
            try:
                case.unchanged.check()
            except Failure as failure:
                outcomes[cell_id] = failure.verdict()
        self.release(request)
        return {"outcomes": outcomes}

    def tables(self, request: Request) -> dict[str, Any]:
        """Write what was chosen in the contestant's own format."""
        chosen = [Chosen(Cell.from_message(c["cell"]), json.loads(c["config"])) for c in request["chosen"]]
        triton_version = version_of("triton") or "unknown"
        files = self._greeted().write_tables(Path(request["folder"]), chosen, triton_version)
        return {"files": [str(path) for path in files]}

    def release(self, request: Request) -> dict[str, Any]:
        """Forget the problem and give its memory back."""
        self._cases = {}
        self._timers.clear()
        return super().release(request)

    def _timed(self, case: Case, text: str, samples: int) -> Verdict:
        key = (case.cell.cell_id, text)
        timer = self._timers.get(key) or self._checked(case, json.loads(text))
        self._timers[key] = timer
        self._timers.move_to_end(key)
        while len(self._timers) > _MOST_TIMERS:
            self._timers.popitem(last=False)
        times = timer.sample(samples)
        self.probe()
        assert timer.output is not None  # noqa: S101 - it was sampled
        # The output of a timed execution on poisoned memory: a launch that failed once can replay very fast.
        return {"status": "passed", "times_us": times, "relative_error": _right(timer.output, case)}

    def _checked(self, case: Case, config: Config) -> Timer:
        """Ready to be timed, after an execution whose output was right."""
        launch = self._greeted().prepare_with(case.cell, case.inputs, config)
        kind = Graph if self.device.type == "cuda" else Eager
        timer = kind(launch, self.device, self._flusher(), self._poison_bytes(case.cell))
        output = timer.check_run()
        self.probe()
        _right(output, case)
        return timer

    def _greeted(self) -> Tunable:
        if self._tunable is None:
            raise Failure("worker-garbage", "asked before hello")
        return self._tunable

    def _chip(self) -> Chip:
        if self.device.type != "cuda":
            return _USUAL_CHIP
        properties = torch.cuda.get_device_properties(self.device)
        shared = getattr(properties, "shared_memory_per_block_optin", _USUAL_CHIP.shared_bytes)
        return Chip(int(shared), properties.multi_processor_count)

    def _blank_inputs(self, cell: Cell) -> Inputs:
        """Inputs of the cell's layout with valid ids and anything else, for launches without kernels.

        What is compiled depends on types, strides and alignment. The weights of one shape are kept: an engine
        may remember things by their address.
        """
        shape = (cell.experts, cell.hidden, cell.intermediate)
        key = (*shape, weight_family(cell.precision))
        if key not in self._blank:
            self._blank = {
                known: blank for known, blank in self._blank.items() if known[: len(shape)] == shape
            }
            self._blank[key] = self._blank_of(cell)
        weights = self._blank[key]
        slots = torch.arange(cell.tokens * cell.top_k, dtype=torch.int32, device=self.device)
        return Inputs(
            x=torch.zeros(cell.tokens, cell.hidden, dtype=weights.x.dtype, device=self.device),
            w13=weights.w13,
            w2=weights.w2,
            topk_weights=torch.zeros(cell.tokens, cell.top_k, device=self.device),
            topk_ids=(slots % cell.experts).view(cell.tokens, cell.top_k),
            w13_scale=weights.w13_scale,
            w2_scale=weights.w2_scale,
        )

    def _blank_of(self, cell: Cell) -> Inputs:
        dtype = dtype_of(activation_dtype(cell.precision))
        int8 = weight_family(cell.precision) == "int8"
        wide = torch.int8 if int8 else dtype
        experts, hidden, intermediate = cell.experts, cell.hidden, cell.intermediate

        def scale(channels: int) -> torch.Tensor | None:
            return torch.zeros(experts, channels, device=self.device) if int8 else None

        nothing = torch.zeros(0, dtype=dtype, device=self.device)  # of x's type; tokens come later
        return Inputs(
            x=nothing,
            w13=torch.zeros(experts, 2 * intermediate, hidden, dtype=wide, device=self.device),
            w2=torch.zeros(experts, hidden, intermediate, dtype=wide, device=self.device),
            topk_weights=nothing,
            topk_ids=nothing,
            w13_scale=scale(2 * intermediate),
            w2_scale=scale(hidden),
        )


def _right(output: torch.Tensor, case: Case) -> float:
    """Relative error of an output.

    Raises:
        Failure: it is wrong.
    """
    check_form(output, case.reference, case.inputs.x.dtype)
    judgement = judge(output, case.reference, case.tolerance)
    failure = judgement.failure(case.tolerance)
    if failure is not None:
        raise failure
    return judgement.relative_error


def _distinct(configs: list[Config], but: Config) -> list[str]:
    texts = dict.fromkeys(config_text(config) for config in configs)
    texts.pop(config_text(but), None)
    return list(texts)


def main() -> None:
    """Serve until the coordinator is done or gone."""
    wire = Wire.take_over()
    torch.set_grad_enabled(False)  # as in serving
    worker = TuneWorker()
    wire.serve(worker.handlers(), worker.probe)


if __name__ == "__main__":
    main()
