"""The referee: draws a race's inputs on the CPU and computes the reference that everyone is judged by.

``python -m producers.referee`` answers JSON lines (docs/architecture.md) and leaves tensors in a scratch
folder. All draws are torch CPU generators seeded from (seed, what is drawn), so that they depend neither
on the order of requests nor on the number of threads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from producers import device as device_facts
from producers.failures import Failure
from producers.jsonlines import Request, Wire
from producers.tensors import create, dtype_of, inputs_sha256, load, save
from producers.workloads import Cell, activation_dtype, flops, io_bytes, weight_bytes, weight_family

_INT8_MAX = 127.0


def generator(*parts: object) -> torch.Generator:
    """A CPU generator seeded by the SHA-256 of what is drawn."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def draw_matrix(rows: int, columns: int, *parts: object) -> torch.Tensor:
    """One expert's matrix [rows, columns], float32, normal with variance 1 / columns (outputs stay O(1))."""
    matrix = torch.empty(rows, columns).normal_(generator=generator(*parts))
    return matrix.mul_(columns**-0.5)


def quantise(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int8 for each output channel: scale = absmax / 127, values rounded half to even.

    Args:
        matrix: [rows, columns] float32.

    Returns:
        int8 [rows, columns] and float32 scales [rows]; a row of zeros has scale 1.
    """
    absmax = matrix.abs().amax(dim=1)
    scale = torch.where(absmax > 0, absmax / _INT8_MAX, torch.ones_like(absmax))
    values = torch.round(matrix / scale[:, None]).clamp_(-_INT8_MAX, _INT8_MAX)
    return values.to(torch.int8), scale


def draw_ids(cell: Cell, seed: int) -> torch.Tensor:
    """Expert ids [M, k] int32, distinct in a row.

    Uniform: k distinct experts a token, all equally likely. Zipf: Gumbel top-k (Vieira 2014), that is k
    draws without replacement with weights rank^-s; which expert has which rank is drawn with the seed.
    """
    draw = generator(seed, cell.workload, "ids", cell.routing, cell.tokens)
    noise = -torch.log(
        torch.empty(cell.tokens, cell.experts, dtype=torch.float64).exponential_(generator=draw)
    )
    if cell.zipf_s is not None:
        permutation = torch.randperm(cell.experts, generator=generator(seed, cell.workload, "ranks"))
        ranks = torch.empty(cell.experts, dtype=torch.float64)
        ranks[permutation] = torch.arange(1, cell.experts + 1, dtype=torch.float64)
        noise -= cell.zipf_s * torch.log(ranks)
    return noise.topk(cell.top_k, dim=1).indices.to(torch.int32)


def draw_tokens(cell: Cell, seed: int) -> dict[str, torch.Tensor]:
    """Draw x [M, H] (standard normal), ids [M, k] and router weights [M, k] (softmax of normals) on the CPU.

    The same numbers for every precision, rounded to bf16 or fp16 for x.
    """
    shape = (cell.tokens, cell.hidden)
    x = torch.empty(shape).normal_(generator=generator(seed, cell.workload, "x", cell.routing, cell.tokens))
    logits = torch.empty(cell.tokens, cell.top_k).normal_(
        generator=generator(seed, cell.workload, "router", cell.routing, cell.tokens)
    )
    return {
        "x": x.to(dtype_of(activation_dtype(cell.precision))),
        "topk_ids": draw_ids(cell, seed),
        "topk_weights": torch.softmax(logits, dim=1),
    }


def reference(tokens: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The MoE layer in float32, expert by expert: [M, H] on the tensors' device.

    out[m] = sum over slots of topk_weights[m, s] * w2[e] @ (silu(gate) * up), gate and up being the first
    and the second I rows of w13[e] @ x[m]; int8 weights are dequantised, x is taken as given. An id that is
    no expert contributes nothing.
    """
    x, ids, router = (tokens[name] for name in ("x", "topk_ids", "topk_weights"))
    x = x.float()
    out = torch.zeros_like(x)
    for expert in torch.unique(ids).tolist():
        if not 0 <= expert < weights["w13"].shape[0]:
            continue
        w13, w2 = (_expert(weights, name, expert) for name in ("w13", "w2"))
        rows, slots = torch.where(ids == expert)
        gate, up = (x[rows] @ w13.T).chunk(2, dim=1)
        product = (torch.nn.functional.silu(gate) * up) @ w2.T
        out.index_add_(0, rows, product * router[rows, slots, None])
    return out


def _expert(weights: Mapping[str, torch.Tensor], name: str, expert: int) -> torch.Tensor:
    matrix = weights[name][expert].float()
    scale = weights.get(f"{name}_scale")
    return matrix if scale is None else matrix * scale[expert][:, None]


class Referee:
    """Draws, references and the folders that hold them."""

    def __init__(self) -> None:
        self.device = device_facts.pick()
        torch.backends.cuda.matmul.allow_tf32 = False
        self._weights: tuple[Path, dict[str, torch.Tensor]] | None = None
        self._hashes: dict[Path, dict[str, str]] = {}

    def handlers(self) -> dict[str, Callable[[Request], Mapping[str, Any]]]:
        """Op -> method."""
        return {op.__name__: op for op in (self.hello, self.weights, self.cell, self.drop, self.ceilings)}

    def hello(self, request: Request) -> dict[str, Any]:  # noqa: ARG002 - a handler
        """What the referee runs on."""
        return device_facts.facts(self.device)

    def weights(self, request: Request) -> dict[str, Any]:
        """Draw the weights that a precision reads into SCRATCH/weights-FAMILY."""
        shape, seed = request["workload"], int(request["seed"])
        family = weight_family(str(request["precision"]))
        folder = _new_folder(Path(request["scratch"]) / f"weights-{family}")
        self._hashes[folder] = draw_weights(folder, shape, family, seed)
        self._weights = None
        return {"folder": str(folder), "sha256": self._hashes[folder]}

    def cell(self, request: Request) -> dict[str, Any]:
        """Draw a cell's tokens and compute its reference; the weights must have been drawn before."""
        cell, scratch = Cell.from_message(request["cell"]), Path(request["scratch"])
        weights_folder = scratch / f"weights-{weight_family(cell.precision)}"
        if weights_folder not in self._hashes:
            raise Failure("worker-garbage", f"asked for a cell before the weights of {cell.precision}")
        if self._weights is None or self._weights[0] != weights_folder:
            self._weights = None  # one family at a time on the device
            self._weights = (weights_folder, load(weights_folder, self.device))
        tokens = draw_tokens(cell, int(request["seed"]))
        on_device = {name: tensor.to(self.device) for name, tensor in tokens.items()}
        expected = reference(on_device, self._weights[1]).cpu()
        folder = _new_folder(scratch / cell.cell_id.replace("/", "__"))
        hashes = save(folder, {**tokens, "reference": expected})
        ids = tokens["topk_ids"]
        loads = torch.bincount(ids.flatten().long(), minlength=cell.experts)
        distinct = int((loads > 0).sum())
        return {
            "folder": str(folder),
            "inputs_sha256": inputs_sha256({**self._hashes[weights_folder], **hashes}),
            "distinct_experts": distinct,
            "max_expert_load": int(loads.max()),
            "weight_bytes": weight_bytes(cell, distinct),
            "io_bytes": io_bytes(cell),
            "flops": flops(cell, ids.numel()),
        }

    def drop(self, request: Request) -> dict[str, Any]:
        """Remove a folder that :meth:`weights` or :meth:`cell` made."""
        folder = Path(request["folder"])
        self._hashes.pop(folder, None)
        if self._weights is not None and self._weights[0] == folder:
            self._weights = None
        shutil.rmtree(folder, ignore_errors=True)
        return {}

    def ceilings(self, request: Request) -> dict[str, Any]:
        """Memory streams and matrix rates of the card, for table ``ceilings``."""
        if self.device.type != "cuda":
            raise Failure("unsupported", "ceilings are measured on CUDA devices only")
        from producers.rates import measure  # noqa: PLC0415 - a race without a card needs no Triton here

        self._weights = None
        torch.cuda.empty_cache()
        return {"ceilings": measure(self.device, int(request["repeats"]))}


def draw_weights(folder: Path, shape: Mapping[str, Any], family: str, seed: int) -> dict[str, str]:
    """Draw w13 and w2 expert by expert, in threads, into files; returns name -> SHA-256.

    The float32 draw is the same for every family: bf16 and fp16 round it, int8 quantises it.
    """
    experts, hidden, intermediate = (int(shape[name]) for name in ("experts", "hidden", "intermediate"))
    shapes = {"w13": (experts, 2 * intermediate, hidden), "w2": (experts, hidden, intermediate)}
    int8 = family == "int8"
    dtype = torch.int8 if int8 else dtype_of({"bf16": "bfloat16", "fp16": "float16"}[family])
    tensors = {name: create(folder / f"{name}.bin", size, dtype) for name, size in shapes.items()}
    if int8:
        for name, (_, rows, _) in shapes.items():
            tensors[f"{name}_scale"] = create(folder / f"{name}_scale.bin", (experts, rows), torch.float32)

    def draw(name: str, expert: int) -> None:
        _, rows, columns = shapes[name]
        matrix = draw_matrix(rows, columns, seed, shape["name"], name, expert)
        if int8:
            values, scale = quantise(matrix)
            tensors[name][expert].copy_(values)
            tensors[f"{name}_scale"][expert].copy_(scale)
        else:
            tensors[name][expert].copy_(matrix)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda job: draw(*job), [(name, e) for name in shapes for e in range(experts)]))
    return save(folder, tensors)


def _new_folder(folder: Path) -> Path:
    """An empty folder in place of what an earlier, interrupted race may have left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main() -> None:
    """Serve until the coordinator is done or gone."""
    wire = Wire.take_over()
    torch.set_grad_enabled(False)
    wire.serve(Referee().handlers())


if __name__ == "__main__":
    main()
