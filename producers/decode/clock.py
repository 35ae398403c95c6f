"""Times of decode steps.

CUDA: an event before the first step and one after each; the host waits once, after the last. A step's time is
what passes on the device between two events: with graphs the device never idles and the time is its work;
without them the device waits for the host's launches, and that wait is in the time, as it is in a user's.

CPU: the wall clock around each step.
"""

from __future__ import annotations

import time
from itertools import pairwise

import torch

from producers.decode.decoders import Decoder

_US_PER_MS = 1e3
_US_PER_S = 1e6


def clock_of(device: torch.device) -> str:
    """What the lake calls the clock of ``device``."""
    return "cuda-events" if device.type == "cuda" else "perf-counter"


def decode(
    decoder: Decoder, prompt: torch.Tensor, *, warm_up: int, steps: int
) -> tuple[list[float], torch.Tensor]:
    """Read the prompt, take ``warm_up`` steps untimed, then ``steps`` timed ones.

    Returns:
        The times of the steps, microseconds, and all tokens [1 + warm_up + steps]: the prompt's choice first.
    """
    decoder.start(prompt)
    tokens = torch.empty(1 + warm_up + steps, dtype=torch.int64, device=prompt.device)
    tokens[0:1].copy_(decoder.token.flatten())
    for i in range(1, warm_up + 1):
        decoder.step()
        tokens[i : i + 1].copy_(decoder.token.flatten())
    timed = _cuda if prompt.is_cuda else _cpu
    return timed(decoder, tokens, warm_up + 1), tokens


def _cuda(decoder: Decoder, tokens: torch.Tensor, first: int) -> list[float]:
    places = range(first, len(tokens))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(places) + 1)]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize(tokens.device)
    marks[0].record()
    for mark, i in zip(marks[1:], places, strict=True):
        decoder.step()
        tokens[i : i + 1].copy_(decoder.token.flatten())
        mark.record()
    torch.cuda.synchronize(tokens.device)
    return [float(start.elapsed_time(end)) * _US_PER_MS for start, end in pairwise(marks)]


def _cpu(decoder: Decoder, tokens: torch.Tensor, first: int) -> list[float]:
    times = []
    for i in range(first, len(tokens)):
        start = time.perf_counter()
        decoder.step()
        times.append((time.perf_counter() - start) * _US_PER_S)
        tokens[i : i + 1].copy_(decoder.token.flatten())
    return times
