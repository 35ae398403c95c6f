"""A process that holds the model: it runs the stock model, then one configuration after the other.

Started by the coordinator, ``python -m producers.gate.worker``; JSON lines on its pipes (docs/models.md has the
requests). Large results travel through files of the run's scratch folder. Imports torch, transformers and
dispatch, nothing of the data side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dispatch.integration import Calls, count_calls
from dispatch.integration.layers import experts_layers
from producers import device as device_facts
from producers.errors import UsageError
from producers.failures import Failure
from producers.gate import experts
from producers.gate.candidates import STOCK_EXPERTS, Candidates, tiles
from producers.gate.compare import Columns, compare
from producers.gate.passes import Outputs, Windows, cut, forward
from producers.gate.plan import CONFIGS, STOCK_FLOAT32, GateConfig
from producers.jsonlines import Request, Wire
from producers.models import LoadedModel, load_model, python_documentation
from producers.models.loaded import sha256_of_json
from producers.models.texts import text_sha256, tokens_sha256
from producers.tensors import sha256_of


@dataclass
class Reference:
    """What the stock model made of the windows, bfloat16 as it gave it.

    Attributes:
        logits: [P, V].
        hidden: [L, P, H].
        probes: layer name -> what its experts are tried on.
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    probes: dict[str, experts.Probe]

    def save(self, path: Path) -> None:
        """Write to ``path``, for every worker of the run."""
        probes = {name: (p.states.cpu(), p.weights_dtype, p.outputs.cpu()) for name, p in self.probes.items()}
        torch.save({"logits": self.logits, "hidden": self.hidden, "probes": probes}, path)

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Map what :meth:`save` wrote."""
        found = torch.load(path, mmap=True, weights_only=True)
        probes = {name: experts.Probe(*probe) for name, probe in found["probes"].items()}
        return cls(found["logits"], found["hidden"], probes)

    def at(self, rows: slice, device: torch.device) -> Outputs:
        """The positions ``rows``, on ``device``."""
        return Outputs(rows, self.logits[rows].to(device), self.hidden[:, rows].to(device))


class GateWorker:
    """Answers the requests of a gate's coordinator."""

    def __init__(self) -> None:
        self.device = device_facts.pick()
        self._loaded: LoadedModel | None = None
        self._candidates: Candidates | None = None
        self._windows: Windows | None = None
        self._batch = 1
        self._reference: Reference | None = None

    def handlers(self) -> dict[str, Callable[[Request], Mapping[str, Any]]]:
        """Op -> method."""
        return {op.__name__: op for op in (self.hello, self.load, self.reference, self.measure)}

    def probe(self) -> None:
        """Raise if the device's context is gone."""
        device_facts.synchronise(self.device)

    def hello(self, request: Request) -> dict[str, Any]:  # noqa: ARG002 - a handler
        """What runs where."""
        return {
            **device_facts.facts(self.device),
            "transformers_version": device_facts.version_of("transformers"),
        }

    def load(self, request: Request) -> dict[str, Any]:
        """Load the model, cut the text into windows, and say what both are."""
        try:
            loaded = load_model(
                str(request["model"]),
                device=str(self.device),
                dtype="bfloat16",
                experts=STOCK_EXPERTS,
                seed=int(request["seed"]),
            )
            text = _text(request.get("text"))
            ids = loaded.token_ids(text)
        except UsageError as error:
            raise Failure("model-unavailable", str(error)) from error
        context = int(request["context"])
        windows = cut(ids, int(request["windows"]), context)
        self._loaded, self._windows = loaded, windows
        self._batch = int(request["batch"])
        self._candidates = Candidates(loaded.model)
        facts = asdict(loaded.facts)
        return {
            "model": facts["name"],
            "weights": facts["weights"],
            "model_sha256": sha256_of_json(facts),
            "layers": len(experts_layers(loaded.model)),
            "text_sha256": text_sha256(text),
            "tokens_sha256": tokens_sha256(ids[: windows.positions + 1]),
            "positions": windows.positions,
            "context_tokens": context,
        }

    def reference(self, request: Request) -> dict[str, Any]:
        """Run the stock model, write what it gave to ``file``, and answer the hash of its logits."""
        loaded, windows = self._ready()
        logits, hidden = [], []
        with experts.watch(loaded.model) as seen:
            for outputs in forward(loaded.model, windows, self._batch):
                logits.append(outputs.logits.cpu())
                hidden.append(outputs.hidden.cpu())
        found = Reference(torch.cat(logits), torch.cat(hidden, dim=1), experts.stock(loaded.model, seen))
        if not all(bool(torch.isfinite(t).all()) for t in (found.logits, found.hidden)):
            raise Failure(
                "reference-not-finite", "the stock model gave logits or states with NaN or infinity"
            )
        found.save(Path(request["file"]))
        return {"reference_sha256": sha256_of(found.logits)}

    def measure(self, request: Request) -> dict[str, Any]:
        """Run a configuration, compare it with the reference in ``reference``, and write columns to ``file``."""
        _, windows = self._ready()
        config = CONFIGS[str(request["config"])]
        reference = self._map(Path(request["reference"]))
        started = time.perf_counter()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        assert self._candidates is not None  # noqa: S101 - set by load, as _ready found
        with self._candidates.of(config) as candidate:
            layers = experts_layers(candidate.model)
            one = next(iter(layers.values()))
            slots = self._batch * windows.inputs.shape[1] * _choices(candidate.model)
            with (
                tiles(one, slots // int(one.num_experts), self.device),
                nullcontext() if config.kernel is None else count_calls(candidate.model) as calls,
            ):
                columns = _joined(self._compared(candidate.model, windows, reference, config))
            with tiles(one, experts.TOKENS, self.device):
                alone = [row for name in layers for row in self._alone(name, layers[name], reference, config)]
            memory = candidate.memory
        np.savez(Path(request["file"]), allow_pickle=False, **columns)
        return {
            "duration_s": time.perf_counter() - started,
            "experts": alone,
            "expert_bytes_before": None if memory is None else memory.before_bytes,
            "expert_bytes_after": None if memory is None else memory.after_bytes,
            "peak_memory_bytes": self._peak(),
            **_calls(calls, config),
        }

    def _compared(
        self, model: Any, windows: Windows, reference: Reference, config: GateConfig
    ) -> Iterator[Columns]:
        targets = windows.targets.flatten()
        for own in forward(model, windows, self._batch):
            stock = reference.at(own.rows, self.device)
            first, second = (own, stock) if config.reference == STOCK_FLOAT32 else (stock, own)
            at = targets[own.rows].to(self.device)
            yield compare(first.logits, second.logits, first.hidden, second.hidden, at)

    def _alone(self, name: str, layer: Any, reference: Reference, config: GateConfig) -> list[dict[str, Any]]:
        probe = reference.probes[name]
        wide = config.reference == STOCK_FLOAT32
        states = probe.states.to(self.device, torch.float32 if wide else probe.states.dtype)
        stock = probe.outputs.to(self.device)
        own = experts.outputs(layer, states, torch.float32 if wide else probe.weights_dtype)
        judged = experts.judge(own, stock) if wide else experts.judge(stock, own)
        return [
            {"layer": name, "expert": expert, "tokens": states.shape[0], **row}
            for expert, row in enumerate(judged)
        ]

    def _map(self, path: Path) -> Reference:
        if self._reference is None:
            self._reference = Reference.load(path)
        return self._reference

    def _ready(self) -> tuple[LoadedModel, Windows]:
        if self._loaded is None or self._windows is None:
            raise Failure("worker-garbage", "asked to run before load")
        return self._loaded, self._windows

    def _peak(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None


def _choices(model: Any) -> int:
    """Experts of a token; only the interpreter's tiles depend on it."""
    return int(getattr(model.config.get_text_config(), "num_experts_per_tok", 1))


def _calls(calls: Calls | None, config: GateConfig) -> dict[str, Any]:
    """Least calls of the named kernel in the named precision over layers, and everything that ran."""
    if calls is None:
        return {"kernel_calls": None, "calls": None}
    return {"kernel_calls": calls.least(config.kernel, config.precision), "calls": calls.by_layer}


def _joined(parts: Iterator[Columns]) -> Columns:
    found = list(parts)
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _text(path: str | None) -> str:
    """The text of a file; without one, Python's documentation.

    Raises:
        UsageError: the file cannot be read, or is no text.
    """
    if path is None:
        return python_documentation()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The text {Path(path).name} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The text {Path(path).name} is not UTF-8 (byte {error.start}).") from error


def main() -> None:
    """Serve until the coordinator is done or gone."""
    wire = Wire.take_over()
    torch.set_grad_enabled(False)  # as in serving
    worker = GateWorker()
    wire.serve(worker.handlers(), worker.probe)


if __name__ == "__main__":
    main()
