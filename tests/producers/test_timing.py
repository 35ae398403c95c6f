"""What a timer does around the executions it times; times themselves are not asserted."""

from __future__ import annotations

import torch

from producers.timing import Eager, Flush

CPU = torch.device("cpu")


class Recorder:
    """A launch that keeps what it handed out and counts its calls."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def __call__(self) -> torch.Tensor:
        self.outputs.append(torch.full((2, 3), float(len(self.outputs))))
        return self.outputs[-1]


def test_one_call_a_sample_and_the_last_output_kept() -> None:
    launch = Recorder()
    timer = Eager(launch, CPU, Flush(CPU), 0)
    times = timer.sample(4)
    assert len(times) == len(launch.outputs) == 4
    assert min(times) > 0
    assert timer.sampled
    assert timer.output is launch.outputs[-1]


def test_output_of_before_is_poisoned_ahead_of_the_last_execution() -> None:
    launch = Recorder()
    Eager(launch, CPU, Flush(CPU), 0).sample(3)
    poisoned = [bool(output.isnan().all()) for output in launch.outputs]
    assert poisoned == [False, True, False]


def test_a_checked_call_is_no_sample() -> None:
    timer = Eager(Recorder(), CPU, Flush(CPU), 0)
    first = timer.check_run()
    assert torch.equal(first, torch.zeros(2, 3))
    assert not timer.sampled
    timer.check_run()
    assert first.isnan().all()


def test_a_cpu_has_no_cache_to_flush() -> None:
    flush = Flush(CPU)
    flush()
    assert flush.state == "none"
