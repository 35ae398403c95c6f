"""The folder of a race for drawn inputs and worker logs, and how processes are started from it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from producers.environment import RACED_PACKAGES, ROOT, Device
from producers.errors import RefusedError
from producers.plan import Entrant
from producers.process import Peer

_PREFIX = "moe-race-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - memory, not disk: workers read gigabytes of weights from it
_ROOM_BYTES = 4 << 30  # the weights of deepseek-moe-16b in bf16 and int8, twice over
# Inherited variables that would change what a worker imports or where it runs.
_NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES")


class Scratch:
    """A temporary folder, removed on exit; those of killed races are removed on creation.

    Workers see the packages ``producers`` and ``dispatch`` through links in ``imports``, and nothing else
    of this environment: an engine's interpreter must not meet our torch.
    """

    def __init__(self, device: Device, *, keep: bool = False) -> None:
        """Make the folder.

        Raises:
            RefusedError: there is no place for it.
        """
        _remove_stale(_SHARED_MEMORY)
        _remove_stale(Path(tempfile.gettempdir()))
        base = _roomy()
        self._device = device
        self._keep = keep
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
            self.inputs = self.folder / "inputs"
            self._imports = self.folder / "imports"
            self._work = self.folder / "work"
            for path in (self.inputs, self._imports, self._work):
                path.mkdir()
            for package in RACED_PACKAGES:
                (self._imports / package).symlink_to(ROOT / package, target_is_directory=True)
        except OSError as error:
            if hasattr(self, "folder"):
                shutil.rmtree(self.folder, ignore_errors=True)
            raise RefusedError(
                f"No folder for the drawn inputs can be made in {base} ({error.strerror}); free space there, "
                "or name another place with TMPDIR."
            ) from error

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def worker(self, entrant: Entrant, poll: Callable[[], None]) -> Peer:
        """Start the worker of an entrant.

        Raises:
            PeerError: its interpreter is missing.
        """
        return self._start(entrant.name, "producers.worker", entrant.interpreter, entrant.import_paths, poll)

    def tuner(self, entrant: Entrant, poll: Callable[[], None]) -> Peer:
        """Start the worker of an entrant whose configurations are searched through.

        Raises:
            PeerError: its interpreter is missing.
        """
        return self._start(
            entrant.name, "producers.tune.worker", entrant.interpreter, entrant.import_paths, poll
        )

    def referee(self, poll: Callable[[], None]) -> Peer:
        """Start the process that draws inputs and computes references."""
        return self.process("referee", "producers.referee", poll)

    def process(self, name: str, module: str, poll: Callable[[], None]) -> Peer:
        """Start a process of our own, under this interpreter and with the folders of PYTHONPATH.

        It belongs to the command that starts it, so it finds the same packages. What is measured against
        others is started with folders of its own instead, and inherits none.

        Args:
            name: names its log.
            module: what it runs, with ``python -m``.
            poll: see :class:`producers.process.Peer`.
        """
        own = tuple(folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder)
        return self._start(name, module, None, own, poll)

    def client(
        self, interpreter: str | None, import_paths: tuple[str, ...], poll: Callable[[], None]
    ) -> Peer:
        """Start the load generator of served engines.

        Raises:
            PeerError: its interpreter is missing.
        """
        return self._start("client", "producers.serve.client", interpreter, import_paths, poll)

    def _program(self, module: str) -> list[str]:
        return ["-m", module]

    def _start(
        self,
        name: str,
        module: str,
        interpreter: str | None,
        import_paths: tuple[str, ...],
        poll: Callable[[], None],
    ) -> Peer:
        env = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        folders = [str(Path(folder).resolve()) for folder in import_paths]
        env["PYTHONPATH"] = os.pathsep.join([*folders, str(self._imports)])
        env["PYTHONUNBUFFERED"] = "1"
        if self._device.is_cuda:
            env["CUDA_VISIBLE_DEVICES"] = self._device.device_uuid
        else:
            # One thread each: contestants take turns, and idle pools of the others would steal the cores.
            env |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        # Not resolved: the link in a virtual environment's bin is what makes it one.
        python = os.path.abspath(shutil.which(interpreter) or interpreter) if interpreter else sys.executable  # noqa: PTH100
        log = self.folder / (re.sub(r"[^A-Za-z0-9@._-]", "_", name) + ".log")
        return Peer(name, [python, *self._program(module)], env=env, cwd=self._work, log=log, poll=poll)


def _roomy() -> Path:
    """Shared memory where it has room for weights (a container often gives it 64 MB), else a folder on disk."""
    disk = Path(tempfile.gettempdir())
    try:
        memory = shutil.disk_usage(_SHARED_MEMORY).free if os.access(_SHARED_MEMORY, os.W_OK) else 0
        return _SHARED_MEMORY if memory >= min(_ROOM_BYTES, shutil.disk_usage(disk).free) else disk
    except OSError:
        return disk


def _remove_stale(base: Path) -> None:
    """Remove folders of races that were killed (their process is gone)."""
    for path in base.glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and path.is_dir() and not _running(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
