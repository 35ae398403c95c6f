"""What a race stands on: the device, the machine, and the sources, without importing torch."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from producers import nvml
from producers.errors import RefusedError, UsageError

CPU_DEVICE = "cpu-interpreter"
ROOT = Path(__file__).resolve().parent.parent
# What measures and what is measured: an edit here between start and resume would mix two programs.
RACED_PACKAGES = ("dispatch", "producers")
BUSY_PERCENT = 10.0


@dataclass(frozen=True)
class Device:
    """The card of a race (or the CPU under Triton's interpreter), named as in table ``runs``."""

    device: str
    device_uuid: str
    driver_version: str | None = None
    power_limit_w: float | None = None
    sm_count: int | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None

    @property
    def is_cuda(self) -> bool:
        """False for the interpreter."""
        return self.device != CPU_DEVICE


@dataclass(frozen=True)
class Sources:
    """Which program ran: git commit (None outside a checkout), hash of the files on disk, dirty flag."""

    source_revision: str | None
    source_sha256: str
    source_dirty: bool | None


@dataclass(frozen=True)
class Environment:
    """Everything that a resumed run must find unchanged, but for the policy and the contestants."""

    device: Device
    sources: Sources
    hostname: str
    platform: str
    card: nvml.Card | None = None

    def columns(self) -> dict[str, Any]:
        """The columns of table ``runs`` that describe where and with what a run ran."""
        return {
            **asdict(self.device),
            **asdict(self.sources),
            "hostname": self.hostname,
            "platform": self.platform,
        }

    def state(self) -> nvml.CardState:
        """The card now; all None on a CPU."""
        return self.card.state() if self.card is not None else nvml.CardState()


def detect(device_index: int | None = None) -> Environment:
    """Look at this machine.

    Args:
        device_index: card in NVML's (PCI) order; None is the first visible one (CUDA_VISIBLE_DEVICES), or
            the CPU where there is none. With TRITON_INTERPRET=1 in the environment it is always the CPU.

    Raises:
        UsageError: a card was asked for that is not there.
    """
    index = _first_visible() if device_index is None else device_index
    interpret = os.environ.get("TRITON_INTERPRET") == "1"
    card = None if interpret or index is None else nvml.open_card(index)
    if card is None and device_index is not None:
        raise UsageError(
            f"There is no CUDA device {device_index} that this process may use; see nvidia-smi, or leave out "
            "--device-index (and TRITON_INTERPRET) to race under Triton's interpreter."
        )
    hostname = socket.gethostname()
    if card is None:
        # The host stands in for the card's UUID, so that rows of two machines do not meet in one cell.
        device = Device(CPU_DEVICE, "cpu-" + hashlib.sha256(hostname.encode()).hexdigest()[:12])
    else:
        sm_count, l2_bytes = nvml.driver_attributes(index or 0)
        device = Device(
            device=card.name,
            device_uuid=card.uuid,
            driver_version=card.driver_version,
            power_limit_w=card.power_limit_w,
            sm_count=sm_count,
            l2_bytes=l2_bytes,
            memory_bytes=card.memory_bytes,
        )
    return Environment(device, read_sources(ROOT), hostname, platform.platform(), card)


def _first_visible() -> int | None:
    """NVML index of the first card that CUDA_VISIBLE_DEVICES leaves; None where it hides all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return 0
    first = visible.split(",")[0].strip()
    if first.isdigit():
        return int(first)
    index = 0
    while first and (card := nvml.open_card(index)) is not None:
        if card.uuid.startswith(first):
            return index
        index += 1
    return None


def refuse_busy(environment: Environment) -> None:
    """Refuse a card that somebody else is using.

    Raises:
        RefusedError: naming the processes, or the utilisation.
    """
    if environment.card is None:
        return
    pids = environment.card.compute_pids()
    if pids:
        named = ", ".join(str(pid) for pid in pids)
        raise RefusedError(
            f"The card is in use by process {named}; timings beside other work are worth nothing. "
            "Stop it, or pass --busy-ok."
        )
    busy = environment.card.utilisation()
    if busy is not None and busy > BUSY_PERCENT:
        raise RefusedError(f"The card is {busy:.0f}% busy; stop what runs on it, or pass --busy-ok.")


def read_sources(root: Path) -> Sources:
    """Commit, dirty flag and hash of the raced packages under ``root``."""
    revision = _git(root, "rev-parse", "HEAD")
    status = None if revision is None else _git(root, "status", "--porcelain", "--", *RACED_PACKAGES)
    return Sources(revision, hash_sources(root, RACED_PACKAGES), None if status is None else bool(status))


def hash_sources(root: Path, packages: tuple[str, ...]) -> str:
    """SHA-256 over names and contents of the ``.py`` and ``.json`` files of some packages, in name order."""
    digest = hashlib.sha256()
    for package in packages:
        files = [p for p in (root / package).rglob("*") if p.suffix in {".py", ".json"} and p.is_file()]
        for path in sorted(files):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _git(root: Path, *arguments: str) -> str | None:
    """Output of a git command in ``root``; None where git or the checkout is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
