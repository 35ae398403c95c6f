"""A card between two engines: memory that a stopped server still holds ends the run."""

from __future__ import annotations

import dataclasses

import pytest

from producers.environment import Device
from producers.serve import __main__ as command
from producers.serve import session


class FakeCard:
    """A card whose memory in use is told in advance; the last value stays."""

    def __init__(self, *used_mb: int) -> None:
        self.used = [megabytes << 20 for megabytes in used_mb]

    def memory_used_bytes(self) -> int:
        return self.used.pop(0) if len(self.used) > 1 else self.used[0]

    def compute_pids(self) -> list[int]:
        return []

    def utilisation(self) -> float:
        return 0.0


@pytest.fixture
def with_card(serve, monkeypatch):
    """A function that serves two engines beside a card."""

    def run(card: FakeCard, *modes: str):
        real = command.detect(None)
        device = Device("Test GPU", "GPU-0", memory_bytes=1 << 30)
        environment = dataclasses.replace(real, device=device, card=card)
        monkeypatch.setattr(command, "detect", lambda _: environment)
        monkeypatch.setattr(session, "_FREE_WITHIN_S", 0.5)
        return serve(*serve.arguments(*modes))

    return run


def test_memory_that_is_freed_late_is_waited_for(serve, with_card):
    done = with_card(FakeCard(100, 30_000, 100), "ok", "short")

    assert done.returncode == 0, done.stderr
    row = serve.runs()["short"]
    assert (row["device"], row["device_uuid"]) == ("Test GPU", "GPU-0")


@pytest.mark.parametrize("mode", ["ok", "exits"])
def test_memory_that_stays_in_use_ends_the_run(serve, with_card, mode):
    done = with_card(FakeCard(100, 30_000), mode, "short")

    assert done.returncode == 5
    assert f"{mode} was stopped and 29900 MB of the card are still in use" in done.stderr
    assert "short" not in serve.runs()
    assert serve.rows("SELECT event FROM runs ORDER BY event_seq")[-1] == {"event": "interrupted"}
