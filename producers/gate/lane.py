"""A place where one worker of a gate runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from producers.errors import PeerError
from producers.process import Peer, Reply


class Lane:
    """A place where one worker runs: started and given the model when it is needed.

    Args:
        start: starts a process.
        model: the fields of the request ``load``.
        timeout_s: longest wait for one answer.
    """

    def __init__(self, start: Callable[[], Peer], model: Mapping[str, Any], timeout_s: float) -> None:
        self._start = start
        self._model = model
        self._timeout_s = timeout_s
        self._peer: Peer | None = None
        self.subject: Reply = {}

    def begin(self) -> None:
        """Start a worker and let it load; :meth:`ready` waits for it.

        Raises:
            PeerError: it did not start.
        """
        self._peer = self._start()
        try:
            hello = self._peer.request("hello", self._timeout_s)
            self._peer.send("load", **self._model)
        except PeerError:
            self.close(gently=False)
            raise
        self.subject = {name: value for name, value in hello.items() if name.endswith("_version")}

    def ready(self) -> None:
        """Wait until the model is loaded.

        Raises:
            PeerError: it cannot be loaded; the worker is gone.
        """
        if self._peer is None:
            self.begin()
        assert self._peer is not None  # noqa: S101 - begun
        try:
            self.subject |= self._peer.receive(self._timeout_s)
        except PeerError:
            self.close(gently=False)
            raise

    @property
    def loaded(self) -> bool:
        """Whether a worker with the model is there."""
        return self._peer is not None and "tokens_sha256" in self.subject

    def ask(self, op: str, **fields: Any) -> Reply:
        """Ask the worker.

        Raises:
            PeerError: it said no, or it is gone.
        """
        assert self._peer is not None  # noqa: S101 - callers begin first
        try:
            return self._peer.request(op, self._timeout_s, **fields)
        except PeerError as error:
            if error.fatal:
                self.close(gently=False)
            raise

    def close(self, *, gently: bool = True) -> None:
        """End the worker."""
        peer, self._peer, self.subject = self._peer, None, {}
        if peer is not None:
            peer.close(gently=gently)
