"""Measured limits of a CUDA device: memory streams and matrix rates, timed with CUDA events.

Sizes exceed every cache; products use random numbers, since zeros draw less power and run faster than any
real input. Each figure is repeated; the best repeat is the ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

_LARGEST_STREAM_BYTES = 4 << 30
_MATRIX = 8192
_WARM_UPS = 3
_US_PER_MS = 1e3
_S_PER_US = 1e-6
_READ_BLOCKS = (4096, 8192, 16384)


@triton.jit  # type: ignore[untyped-decorator]
def _read_stream(source, sums, BLOCK: tl.constexpr, STEPS: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """One partial sum a program: STEPS blocks read, four bytes written."""
    first = tl.program_id(0).to(tl.int64) * BLOCK * STEPS
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for step in range(STEPS):
        total += tl.load(source + first + step * BLOCK + tl.arange(0, BLOCK))
    tl.store(sums + tl.program_id(0), tl.sum(total, axis=0))


@dataclass(frozen=True)
class _Problem:
    """Something to time: what the row is called, the call, and the work in it."""

    ceiling: str
    problem: str
    call: Callable[[], object]
    stream_bytes: int | None = None
    operations: int | None = None


def measure(device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """Rows of table ``ceilings`` without the run: ceiling, repeat, problem, time_us, bytes_per_s, ops_per_s.

    ``read`` counts bytes read, ``copy`` bytes read plus written, the products two operations for each
    multiply-add. ``repeat`` counts over all ways in which a ceiling was tried.
    """
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for problem in _problems(device):
        for time_us in _times_us(problem.call, repeats):
            repeat = counts.get(problem.ceiling, 0)
            counts[problem.ceiling] = repeat + 1
            rows.append(
                {
                    "ceiling": problem.ceiling,
                    "repeat": repeat,
                    "problem": problem.problem,
                    "time_us": time_us,
                    "bytes_per_s": _rate(problem.stream_bytes, time_us),
                    "ops_per_s": _rate(problem.operations, time_us),
                }
            )
    return rows


def _rate(work: int | None, time_us: float) -> float | None:
    return None if work is None else work / (time_us * _S_PER_US)


def _times_us(call: Callable[[], object], repeats: int) -> list[float]:
    for _ in range(_WARM_UPS):
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]  # type: ignore[no-untyped-call]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [float(start.elapsed_time(end)) * _US_PER_MS for start, end in events]


def _problems(device: torch.device) -> Iterator[_Problem]:
    """One at a time, so that the memory of one is free before the next is made."""
    yield from _streams(device)
    torch.cuda.empty_cache()
    yield from _products(device)
    torch.cuda.empty_cache()


def _streams(device: torch.device) -> Iterator[_Problem]:
    free, _ = torch.cuda.mem_get_info(device)
    unit = max(_READ_BLOCKS) * 16 * 4
    size = min(_LARGEST_STREAM_BYTES, free // 4) // unit * unit
    source = torch.ones(size // 4, dtype=torch.int32, device=device)
    for block in _READ_BLOCKS:
        programs = source.numel() // (block * 16)
        sums = torch.empty(programs, dtype=torch.int32, device=device)

        def read(block: int = block, programs: int = programs, sums: torch.Tensor = sums) -> None:
            _read_stream[(programs,)](source, sums, block, 16, num_warps=8)

        yield _Problem("read", f"{size} bytes, Triton sum, block {block}", read, stream_bytes=size)
    floats = source.view(torch.float32)
    yield _Problem("read", f"{size} bytes, torch.sum float32", floats.sum, stream_bytes=size)
    target = torch.empty_like(source)
    yield _Problem(
        "copy", f"{size} bytes to {size} bytes", lambda: target.copy_(source), stream_bytes=2 * size
    )


def _products(device: torch.device) -> Iterator[_Problem]:
    shape, operations = (_MATRIX, _MATRIX), 2 * _MATRIX**3
    label = f"{_MATRIX} x {_MATRIX} x {_MATRIX}"
    a, b = (torch.randn(shape, device=device).to(torch.bfloat16) for _ in range(2))
    yield _Problem("bf16_matmul", label, lambda: torch.mm(a, b.T), operations=operations)
    a8, b8 = (torch.randint(-127, 128, shape, dtype=torch.int8, device=device) for _ in range(2))
    yield _Problem("int8_matmul", label, lambda: torch._int_mm(a8, b8.T), operations=operations)
