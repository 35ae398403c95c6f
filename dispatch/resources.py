"""What the compiler makes of the kernels, without a GPU: registers, spills, shared memory, matrix unit.

    python -m dispatch.resources --tokens 1 64 2048 --precision bf16 int8_w8a8

A family's call is run on tensors without memory, its launches are recorded instead of made, and each
recorded kernel is compiled for the device that is named. Registers and local memory (spills) are those
that ``cuobjdump`` reads out of the machine code.
"""

# mypy: disable-error-code="import-untyped"
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from dispatch import kernels
from dispatch.config import DeviceFacts, Problem
from dispatch.errors import DispatchError, TritonUnavailableError
from dispatch.kernels.call import Call
from dispatch.kernels.family import MoeTensors
from dispatch.precision import Precision

# 'NVIDIA H200' as torch reports it, and one older and smaller part.
DEVICES = {
    "h200": DeviceFacts("NVIDIA H200", (9, 0), 132),
    "a100": DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108),
    "rtx4090": DeviceFacts("NVIDIA GeForce RTX 4090", (8, 9), 128),
}
_TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int8: "*i8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
_ALIGNMENT = 16


@dataclass(frozen=True)
class Resources:
    """One compiled kernel.

    Attributes:
        kernel: its name.
        registers: of a thread.
        spill_bytes: local memory of a thread; 0 where nothing is spilled.
        shared_bytes: of a program, static and dynamic.
        matrix_unit: ``wgmma``, ``mma`` or ``none``.
        num_warps: of a program.
        num_stages: of the load pipeline.
    """

    kernel: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    matrix_unit: str
    num_warps: int
    num_stages: int


def resources(problem: Problem, kernel: str) -> list[Resources]:
    """The kernels of one call, in the order of their launches.

    Args:
        problem: shape, precision and the device to compile for.
        kernel: ``auto`` or a family.

    Raises:
        DispatchError: no family runs the problem, or Triton interprets in this process.
    """
    family = kernels.choose(problem, kernel)
    from triton import knobs  # noqa: PLC0415 - Triton is an optional dependency

    if knobs.runtime.interpret:
        raise TritonUnavailableError("TRITON_INTERPRET is set, so nothing is compiled: unset it.")
    with _recorded() as launches:
        tensors = _tensors(problem)
        family.run(tensors, problem, family.configure(problem), Call({}, tensors.x.device))
    return [_compile(fn, arguments, problem) for fn, arguments in launches]


@contextmanager
def _recorded() -> Iterator[list[tuple[Any, dict[str, Any]]]]:
    """Record launches as (function, arguments by name and compile options) instead of making them."""
    from triton.runtime.jit import JITFunction  # noqa: PLC0415 - Triton is an optional dependency

    launches: list[tuple[Any, dict[str, Any]]] = []

    def record(fn: Any, *args: Any, **options: Any) -> None:
        names = [parameter.name for parameter in fn.params]
        launches.append((fn, {**dict(zip(names, args, strict=False)), **options}))

    with mock.patch.object(JITFunction, "run", record):
        yield launches


def _compile(fn: Any, arguments: dict[str, Any], problem: Problem) -> Resources:
    import triton  # noqa: PLC0415 - Triton is an optional dependency
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - Triton is an optional dependency

    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(fn.params):
        name, value = parameter.name, arguments.pop(parameter.name)
        one = isinstance(value, int) and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or one:
            signature[name], constants[(place,)] = "constexpr", value
            continue
        if isinstance(value, torch.Tensor):
            signature[name], aligned = _TYPES[value.dtype], True
        elif isinstance(value, float):
            signature[name], aligned = "fp32", False
        else:
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            aligned = value % _ALIGNMENT == 0 and not parameter.do_not_specialize
        if aligned:
            attributes[(place,)] = [["tt.divisibility", _ALIGNMENT]]
    source = triton.compiler.ASTSource(fn, signature, constants, attributes)
    major, minor = problem.device.capability
    options = {k: v for k, v in arguments.items() if k not in {"grid", "warmup"}}
    compiled = triton.compile(source, target=GPUTarget("cuda", 10 * major + minor, 32), options=options)
    usage = _usage(compiled.asm["cubin"])
    ptx = compiled.asm["ptx"]
    unit = "wgmma" if "wgmma.mma_async" in ptx else "mma" if "mma.sync" in ptx else "none"
    return Resources(
        kernel=fn.__name__,
        registers=usage["REG"],
        spill_bytes=max(usage["LOCAL"], usage["STACK"]),
        shared_bytes=compiled.metadata.shared,
        matrix_unit=unit,
        num_warps=compiled.metadata.num_warps,
        num_stages=compiled.metadata.num_stages,
    )


def _usage(cubin: bytes) -> dict[str, int]:
    from triton import knobs  # noqa: PLC0415 - Triton is an optional dependency

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}


def _tensors(problem: Problem) -> MoeTensors:
    """Tensors of the problem's shape that have no memory."""
    tokens, k, experts = problem.tokens, problem.top_k, problem.experts
    hidden, intermediate = problem.hidden, problem.intermediate
    activation = torch.float16 if problem.precision is Precision.FP16 else torch.bfloat16
    weight = torch.int8 if problem.precision.int8_weights else activation

    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    scaled = problem.precision.int8_weights
    return MoeTensors(
        x=empty(tokens, hidden, dtype=activation),
        w13=empty(experts, 2 * intermediate, hidden, dtype=weight),
        w2=empty(experts, hidden, intermediate, dtype=weight),
        topk_weights=empty(tokens, k, dtype=torch.float32),
        topk_ids=empty(tokens, k, dtype=torch.int32),
        w13_scale=empty(experts, 2 * intermediate, dtype=torch.float32) if scaled else None,
        w2_scale=empty(experts, hidden, dtype=torch.float32) if scaled else None,
        out_of_range=empty(1, dtype=torch.int32),
        out=empty(tokens, hidden, dtype=activation),
    )


def main() -> int:
    """Print one line a kernel, or JSON lines."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m dispatch.resources", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--device", choices=DEVICES, default="h200")
    parser.add_argument(
        "--kernel", nargs="+", choices=[*kernels.FAMILIES, kernels.AUTO], default=["naive", "persistent"]
    )
    parser.add_argument("--precision", nargs="+", choices=list(Precision), default=list(Precision))
    parser.add_argument("--tokens", nargs="+", type=int, default=[1, 64, 512, 2048])
    sizes = ("--experts", 64), ("--top-k", 6), ("--hidden", 2048), ("--intermediate", 1408)
    for name, default in sizes:
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    asked = parser.parse_args()
    for kernel in asked.kernel:
        for precision in map(Precision, asked.precision):
            for tokens in asked.tokens:
                shape = (tokens, asked.top_k, asked.experts, asked.hidden, asked.intermediate)
                problem = Problem(*shape, precision, DEVICES[asked.device])
                try:
                    found = resources(problem, kernel)
                except DispatchError as error:
                    sys.stderr.write(f"{error}\n")
                    return 2
                for each in found:
                    _print(kernel, precision, tokens, each, as_json=asked.json)
    return 0


def _print(kernel: str, precision: Precision, tokens: int, each: Resources, *, as_json: bool) -> None:
    if as_json:
        line = json.dumps({"family": kernel, "precision": str(precision), "tokens": tokens, **asdict(each)})
    else:
        line = (
            f"{kernel:10} {precision:10} {tokens:5} {each.kernel:16} {each.matrix_unit:5} "
            f"{each.registers:3} registers {each.spill_bytes:4} B spilled {each.shared_bytes:6} B shared "
            f"{each.num_warps} warps {each.num_stages} stages"
        )
    sys.stdout.write(line + os.linesep)


if __name__ == "__main__":
    sys.exit(main())
