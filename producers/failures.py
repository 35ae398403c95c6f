"""What an exception means for the record: a reason code, whose fault, and one sentence.

Works on the class's and the message's text, because the errors come from packages (torch of several
versions, Triton, the engines) that cannot all be imported here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from producers.outcomes import Fault, fault_of

_LONGEST_DETAIL = 500

# CUDA errors after which a process's context is gone for good (CUDA runtime API, "sticky" errors).
_STICKY_PHRASES = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "illegal address",
    "invalid program counter",
    "unspecified launch failure",
    "device-side assert",
    "hardware stack error",
    "invalid address space",
    "uncorrectable ecc error",
)
_MEMORY_PHRASES = (
    "out of memory",
    "cuda_error_out_of_memory",
    "can't allocate memory",
    "cannot allocate memory",
)
_UNSUPPORTED_CLASSES = {"NotImplementedError", "UnsupportedError"}  # the second is dispatch's
_MEMORY_CLASSES = {"OutOfMemoryError", "MemoryError"}


class Failure(Exception):  # noqa: N818 - a finding that is reported, and only sometimes raised
    """A refusal: why there will be no number.

    Attributes:
        reason_code: a code of :mod:`producers.outcomes`.
        detail: one sentence.
        sticky: whether the process must be replaced.
    """

    def __init__(self, reason_code: str, detail: str, *, sticky: bool = False) -> None:
        super().__init__(f"{reason_code}: {detail}")
        self.reason_code = reason_code
        self.detail = _one_line(detail)
        self.sticky = sticky

    @property
    def fault(self) -> Fault:
        """Whose fault it is."""
        return fault_of(self.reason_code)

    def reply(self) -> dict[str, Any]:
        """The fields of an ``ok: false`` reply."""
        fields = {"reason_code": self.reason_code, "fault": self.fault, "detail": self.detail}
        return {**fields, "sticky": True} if self.sticky else fields

    def verdict(self) -> dict[str, Any]:
        """The fields of a refusing verdict."""
        return {
            "status": "refused",
            "reason_code": self.reason_code,
            "fault": self.fault,
            "detail": self.detail,
        }


def failure_of(error: BaseException, probe: Callable[[], object] | None = None) -> Failure:
    """Classify what a contestant raised.

    Args:
        error: the exception.
        probe: a harmless call on the device; if it fails too, the device context is gone (a kernel's
            fault surfaces at whichever call comes next, so the first message may be misleading).
    """
    if isinstance(error, Failure):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    chain = " | ".join(_chain(error)).lower()
    if any(phrase in chain for phrase in _STICKY_PHRASES):
        return Failure("illegal-memory", text, sticky=True)
    if probe is not None:
        try:
            probe()
        except Exception as gone:  # whatever it is, the context does not work
            return Failure("illegal-memory", f"{text}; afterwards the device fails with: {gone}", sticky=True)
    return Failure(_code_of(error, chain), text)


def _code_of(error: BaseException, chain: str) -> str:
    no_room = isinstance(error, OSError) and error.errno in {errno.ENOMEM, errno.ENOSPC}
    if (
        no_room
        or type(error).__name__ in _MEMORY_CLASSES
        or any(phrase in chain for phrase in _MEMORY_PHRASES)
    ):
        return "out-of-memory"
    if any(kind.__name__ in _UNSUPPORTED_CLASSES for kind in type(error).__mro__):
        return "unsupported"
    return "not-installed" if isinstance(error, ImportError) else "crashed"


def _chain(error: BaseException) -> list[str]:
    """The error's text and those of its causes, for engines that wrap what CUDA said."""
    texts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        texts.append(f"{type(link).__name__}: {link}")
        link = link.__cause__ or link.__context__
    return texts


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 3] + "..."
