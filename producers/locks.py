"""One race per device at a time: an advisory lock that the kernel drops when its holder ends."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from pathlib import Path
from types import TracebackType

from producers.errors import RefusedError


class DeviceLock:
    """Holds the lock file of one device; a context manager.

    Args:
        device_uuid: names the file in the temporary folder, so two cards can race at once.

    Raises:
        RefusedError: another race holds the device (on entry).
    """

    def __init__(self, device_uuid: str) -> None:
        name = re.sub(r"[^A-Za-z0-9.-]", "_", device_uuid)
        self.path = Path(tempfile.gettempdir()) / f"moe-race-{name}.lock"
        self._fd = -1

    def __enter__(self) -> DeviceLock:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise RefusedError(f"Cannot open the lock file {self.path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise RefusedError(
                f"Another race (process {holder or 'unknown'}) holds this device; wait for it or stop it."
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would let a third process lock a name that a second already holds.
        os.close(self._fd)
