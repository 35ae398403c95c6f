"""Reason codes of a refusal, and whose fault each is.

A contestant's own fault is shown beside a cell's outcome and takes nothing from the others; a fault of
the environment leaves the cell incomplete, because nobody knows how the contestant would have done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fault = Literal["contestant", "environment"]


@dataclass(frozen=True)
class Reason:
    """Why a contestant has no samples in a cell: the code, whose fault it is, and what it means."""

    code: str
    fault: Fault
    meaning: str


_ALL = (
    Reason("wrong-output", "contestant", "the output is outside the tolerance of the float32 reference"),
    Reason("nan-output", "contestant", "the output holds NaN or infinity"),
    Reason("not-repeatable", "contestant", "the same inputs gave outputs too far apart"),
    Reason("unsupported", "contestant", "the contestant does not take this combination"),
    Reason("crashed", "contestant", "the contestant raised an error"),
    Reason("illegal-memory", "contestant", "a kernel faulted; the process was replaced"),
    Reason("input-modified", "contestant", "the contestant wrote into an input"),
    Reason("below-floor", "contestant", "the time is under what the device can do"),
    Reason("kernel-not-called", "contestant", "the kernel that the name promises did not run in every layer"),
    Reason("not-installed", "environment", "the contestant's package cannot be imported"),
    Reason("worker-did-not-start", "environment", "the worker process did not start"),
    Reason("worker-died", "environment", "the worker process ended"),
    Reason("worker-timeout", "environment", "the worker did not answer in time"),
    Reason("worker-garbage", "environment", "the worker answered with something that is no reply"),
    Reason("out-of-memory", "environment", "the device or the host had too little memory"),
    Reason("inputs-differ", "environment", "the worker did not receive the inputs that were drawn"),
    Reason("left-out", "environment", "the command line left a required rival out"),
    Reason("model-unavailable", "environment", "the language model or its text cannot be had here"),
    Reason("text-too-short", "environment", "the text has fewer tokens than were asked for"),
    Reason("reference-not-finite", "environment", "the stock model's output holds NaN or infinity"),
)

REASONS: dict[str, Reason] = {reason.code: reason for reason in _ALL}


def fault_of(code: str) -> Fault:
    """Whose fault a reason code is.

    Raises:
        KeyError: ``code`` is none of :data:`REASONS`.
    """
    return REASONS[code].fault
