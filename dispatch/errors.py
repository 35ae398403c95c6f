"""What dispatch raises. Each error is one sentence: what is wrong, where, and what to do.

DispatchError
  InvalidInputError (also ValueError)   a tensor's shape, type, device or layout; an id out of range
  UnsupportedError                      a combination that no kernel runs
    LimitError                          a size that a kernel's index arithmetic cannot reach
  TritonUnavailableError                Triton is not installed, or there is no device for it
  CaptureError                          a first call under CUDA-graph capture, where it would compile
  ConfigError (also ValueError)         a tuned table that cannot be read
"""

from __future__ import annotations


class DispatchError(Exception):
    """Base of everything that dispatch raises on purpose."""


class InvalidInputError(DispatchError, ValueError):
    """An argument has the wrong shape, type, device, layout or value."""


class UnsupportedError(DispatchError):
    """No kernel runs this combination."""


class LimitError(UnsupportedError):
    """A size passes what a kernel's index arithmetic or the launch grid can hold."""


class TritonUnavailableError(DispatchError):
    """The kernels need Triton and a device for it; reference, eager loop and quantisation do not."""


class CaptureError(DispatchError):
    """A call under CUDA-graph capture that would compile or allocate for the first time."""


class ConfigError(DispatchError, ValueError):
    """A tuned table is malformed."""
