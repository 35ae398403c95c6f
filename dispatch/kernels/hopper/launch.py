"""Programmatic dependent launch: the start of a kernel overlaps the end of its predecessor.

A kernel launched with the options of :func:`overlap` may start as soon as every program of its predecessor
has called ``signal`` or ended. Nothing of the predecessor may be read before ``wait``, which returns when
the predecessor has completed and its writes can be seen. The first kernel of a call is launched plainly, so
it waits for all earlier work of the stream, and every later one waits before its first read of what a call
computes: buffers can be reused from call to call.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from dispatch.config import DeviceFacts, Problem

CAPABILITY = (9, 0)
_OVERLAP = {"launch_pdl": True}
_INTERPRETED_BLOCK = 512


def overlap(device: DeviceFacts) -> dict[str, Any]:
    """Launch options of every kernel of a call but the first."""
    return {} if device.interpreted else _OVERLAP


def refuses(problem: Problem, channels: int, step: int) -> str | None:
    """Why a Hopper family cannot run a problem; None if it can.

    Args:
        problem: the call.
        channels: H and I must be multiples of this many output channels.
        step: and of this many columns of a reduction.
    """
    if not problem.device.interpreted and problem.device.capability != CAPABILITY:
        return f"it is written for compute capability 9.0 and {problem.device.name} has another."
    for name, size in (("hidden", problem.hidden), ("intermediate", problem.intermediate)):
        for multiple in (channels, step):
            if size % multiple:
                return f"{name} size {size} is no multiple of {multiple}."
    return None


def interpreted_blocks(problem: Problem) -> tuple[int, int]:
    """Large blocks that divide H and I: the interpreter pays for each operation, hardly for its size.

    A block of at most 512 keeps sums of int8 products exact in float32, see ``product``.
    """
    return math.gcd(problem.hidden, _INTERPRETED_BLOCK), math.gcd(problem.intermediate, _INTERPRETED_BLOCK)


@triton.jit
def signal(INTERPRET: tl.constexpr):
    """Let the next kernel start."""
    if not INTERPRET:
        gdc_launch_dependents()


@triton.jit
def wait(INTERPRET: tl.constexpr):
    """Wait for the previous kernel's end and writes."""
    if not INTERPRET:
        gdc_wait()


@triton.jit
def prefetch(pointer, size, INTERPRET: tl.constexpr):
    """Ask ``size`` bytes (a multiple of 16) from one address into L2; a hint that waits for nothing.

    One thread asks: the same request from every thread of a program costs more than the hint gains.
    """
    if not INTERPRET:
        tl.inline_asm_elementwise(
            """{
            .reg .pred first; .reg .u32 thread;
            mov.u32 thread, %tid.x;
            setp.eq.u32 first, thread, 0;
            @first cp.async.bulk.prefetch.L2.global [$1], $2;
            mov.u32 $0, 0;
            }""",
            "=r,l,r",
            [pointer.to(tl.uint64, bitcast=True), size],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
