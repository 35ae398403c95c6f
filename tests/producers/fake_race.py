"""`producers.race` with fake workers: the real command, lake and processes, but no torch.

Run as ``python fake_race.py OPTIONS...``. FAKE_CONTESTANTS in the environment is JSON: name -> {house,
options}; FAKE_UUID names the card; FAKE_SOURCES is the hash of the sources;
FAKE_STOP_AFTER stops the race cleanly after that many units, FAKE_FULL_AFTER fills the disk.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from producers import race
from producers.contestants import Registration
from producers.environment import CPU_DEVICE, Device, Environment, Sources
from producers.errors import StoppedError
from producers.recorder import Recorder, Row
from producers.scratch import Scratch

DEFAULT = {
    "dispatch": {"house": "dispatch", "options": {"time_us": 10.0}},
    "dispatch-naive": {"house": "dispatch", "options": {"time_us": 15.0}},
    "dispatch-persistent": {"house": "dispatch", "options": {"time_us": 12.0}},
    "dispatch-control": {"house": "dispatch", "options": {"time_us": 10.0}},
    "example": {"house": "example", "options": {"time_us": 20.0}},
}


class FakeScratch(Scratch):
    """Starts fake_worker.py for every process."""

    def _program(self, module: str) -> list[str]:
        return ["-I", "-S", str(Path(__file__).with_name("fake_worker.py")), module]


def fake_registry() -> dict[str, Registration]:
    """The contestants of FAKE_CONTESTANTS over the default ones."""
    told = {**DEFAULT, **json.loads(os.environ.get("FAKE_CONTESTANTS", "{}"))}
    return {
        name: Registration("fake:Fake", str(c["house"]), dict(c["options"]), "fixed")
        for name, c in told.items()
    }


def fake_detect(device_index: int | None = None) -> Environment:
    """A CPU whose identity the test chooses."""
    assert device_index is None
    device = Device(CPU_DEVICE, os.environ.get("FAKE_UUID", "cpu-one"))
    sources = Sources(None, os.environ.get("FAKE_SOURCES", "sources-one"), None)
    return Environment(device, sources, "host", "platform")


class StoppingRecorder(Recorder):
    """Stops the race after as many units as FAKE_STOP_AFTER says."""

    units = 0

    def unit(self, *rows: Sequence[Row]) -> None:  # type: ignore[override]
        """Append, then stop where it was asked for."""
        if str(self.units) == os.environ.get("FAKE_FULL_AFTER"):
            # A limit on the size of a file stands in for the full disk: writing beyond it fails alike.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))
        super().unit(*rows)
        self.units += 1
        if str(self.units) == os.environ.get("FAKE_STOP_AFTER"):
            raise StoppedError("The test stops here.")


FAKES = {
    "Recorder": StoppingRecorder,
    "Scratch": FakeScratch,
    "registry": fake_registry,
    "detect": fake_detect,
}


if __name__ == "__main__":
    for name, fake in FAKES.items():
        setattr(race, name, fake)
    sys.exit(race.main(sys.argv[1:]))
