"""Limits of time and money, and the request to stop (Ctrl-C, SIGTERM)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from producers.errors import StoppedError


@dataclass
class Budget:
    """How long a race may go on.

    Args:
        minutes: wall-clock limit of this invocation, None for none.
        usd: limit of money; needs ``usd_per_hour``.
        usd_per_hour: what the machine costs.
        clock: seconds, monotonic.
    """

    minutes: float | None = None
    usd: float | None = None
    usd_per_hour: float | None = None
    clock: Callable[[], float] = time.monotonic
    _start: float = field(init=False)
    _signal: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the race was started (or resumed) here."""
        return self.clock() - self._start

    @property
    def spent_usd(self) -> float | None:
        """Money spent so far, None without a rate."""
        return None if self.usd_per_hour is None else self.elapsed_s / 3600 * self.usd_per_hour

    def left_s(self) -> float:
        """Seconds until the nearer limit; infinite without one."""
        limits = [float("inf")]
        if self.minutes is not None:
            limits.append(self.minutes * 60)
        if self.usd is not None and self.usd_per_hour:
            limits.append(self.usd / self.usd_per_hour * 3600)
        return min(limits) - self.elapsed_s

    def check(self, needed_s: float = 0.0) -> None:
        """Raise where a signal came, or the next ``needed_s`` seconds would cross a limit.

        Raises:
            StoppedError: with the reason.
        """
        self.check_signal()
        if self.left_s() <= needed_s:
            minutes = self.elapsed_s / 60
            money = "" if self.spent_usd is None else f", {self.spent_usd:.2f} USD"
            raise StoppedError(f"The budget is used up after {minutes:.1f} minutes{money}.")

    def check_signal(self) -> None:
        """Raise where Ctrl-C or SIGTERM came.

        Raises:
            StoppedError: naming the signal.
        """
        if self._signal is not None:
            raise StoppedError(f"{self._signal} came.")

    def watch_signals(self) -> None:
        """Note SIGINT and SIGTERM from now on; a second one of them ends the process at once."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = signal.Signals(number).name
