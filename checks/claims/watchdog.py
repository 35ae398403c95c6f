"""A time limit for questions: one thread for all of them, since starting one for each costs more than most take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_LOOKS_EVERY_S = 0.05


class Watchdog:
    """Interrupts what runs on a connection for longer than ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._running: tuple[duckdb.DuckDBPyConnection, float] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @contextmanager
    def over(self, con: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Watch what the block runs on ``con``; the interrupt raises there."""
        if self._thread.ident is None:
            self._thread.start()
        with self._lock:
            self._running = (con, time.monotonic() + self.seconds)
        try:
            yield
        finally:
            with self._lock:  # an interrupt that is on its way hits this question and no later one
                self._running = None

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOKS_EVERY_S):
            with self._lock:
                if self._running is not None and time.monotonic() > self._running[1]:
                    self._running[0].interrupt()
