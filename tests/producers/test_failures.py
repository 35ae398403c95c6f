"""Exceptions become reason codes, faults and one sentence."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import torch

import dispatch
from producers.failures import Failure, failure_of
from producers.outcomes import REASONS, fault_of


class OutOfResources(Exception):  # noqa: N818 - Triton's name
    """Stands for triton.runtime.errors.OutOfResources."""


CASES = [
    (ImportError("No module named 'vllm'"), "not-installed"),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out-of-memory"),
    (MemoryError(), "out-of-memory"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out-of-memory"),
    (OSError(errno.ENOSPC, "No space left on device"), "out-of-memory"),
    (NotImplementedError("no int8 here"), "unsupported"),
    (dispatch.LimitError("grid too large"), "unsupported"),
    (RuntimeError("CUDA error: an illegal memory access was encountered"), "illegal-memory"),
    (RuntimeError("CUDA error: device-side assert triggered"), "illegal-memory"),
    (RuntimeError("Triton Error [CUDA]: misaligned address"), "illegal-memory"),
    (OutOfResources("out of resource: shared memory, Required: 300000, Hardware limit: 232448"), "crashed"),
    (AssertionError(), "crashed"),
    (SystemExit("usage"), "crashed"),
]


@pytest.mark.parametrize(("error", "code"), CASES)
def test_reason_code(error: BaseException, code: str) -> None:
    failure = failure_of(error)
    assert (failure.reason_code, failure.fault) == (code, fault_of(code))
    assert failure.sticky == (code == "illegal-memory")
    assert failure.detail
    assert "\n" not in failure.detail
    assert failure.verdict()["status"] == "refused"


def test_a_device_that_no_longer_answers_is_sticky() -> None:
    def broken() -> None:
        raise RuntimeError("CUDA error: unknown error")

    assert failure_of(ValueError("innocent"), broken).reply()["sticky"] is True
    working: Callable[[], None] = lambda: None  # noqa: E731
    assert failure_of(ValueError("innocent"), working).reason_code == "crashed"


def test_cause_of_a_wrapped_error_counts() -> None:
    outer = ValueError("engine failed")
    outer.__cause__ = RuntimeError("an illegal memory access was encountered")
    assert failure_of(outer).reason_code == "illegal-memory"


def test_detail_is_one_bounded_line() -> None:
    failure = failure_of(ValueError("first\nsecond " + "x" * 10_000))
    assert failure.detail.startswith("ValueError: first second")
    assert len(failure.detail) == 500


def test_failures_pass_through() -> None:
    failure = Failure("nan-output", "NaN")
    assert failure_of(failure) is failure


def test_every_reason_has_one_fault_and_a_meaning() -> None:
    assert {reason.fault for reason in REASONS.values()} == {"contestant", "environment"}
    assert all(code == reason.code and reason.meaning for code, reason in REASONS.items())
    with pytest.raises(KeyError):
        fault_of("tired")
