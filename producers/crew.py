"""The workers of one session: started together, asked together or one by one, replaced when they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from producers.errors import PeerError
from producers.plan import Entrant
from producers.process import Peer, Reply

Answers = dict[str, Reply | PeerError]

RESTARTS_PER_SESSION = 2
# A process that reports one of these has a device context that nothing can be trusted in any more.
_STICKY = frozenset({"illegal-memory"})
# A worker that fails before it said hello never started, whatever it failed of.
_BEFORE_HELLO = frozenset({"worker-died", "worker-timeout", "worker-garbage"})


class Crew:
    """One worker process for each entrant of a session.

    Args:
        entrants: who takes part, by name.
        launch: starts the process of an entrant; may raise PeerError.
        timeout_s: longest wait for one answer.
        on_hello: called with every answer to hello; raises PeerError to reject that worker.
        restarts: how often a fallen worker is replaced.
    """

    def __init__(
        self,
        entrants: Mapping[str, Entrant],
        launch: Callable[[Entrant], Peer],
        timeout_s: float,
        on_hello: Callable[[Entrant, Reply], None],
        restarts: int = RESTARTS_PER_SESSION,
    ) -> None:
        self._entrants = entrants
        self._launch = launch
        self._timeout_s = timeout_s
        self._on_hello = on_hello
        self._peers: dict[str, Peer] = {}
        self._most_restarts = restarts
        self._restarts = dict.fromkeys(entrants, 0)
        self._weights: dict[str, str] = {}  # name -> folder that it loaded
        # Why somebody has no worker: (stage, failure).
        self.missing: dict[str, tuple[str, PeerError]] = {}

    def start(self, names: Iterable[str]) -> None:
        """Start workers and greet them, all at once; who fails goes to :attr:`missing`."""
        launched = []
        for name in names:
            try:
                self._peers[name] = self._launch(self._entrants[name])
            except PeerError as error:
                self.missing[name] = ("start", error)
                continue
            self.missing.pop(name, None)
            launched.append(name)
        fields = {
            name: {
                "contestant": self._entrants[name].implementation,
                "options": dict(self._entrants[name].options),
            }
            for name in launched
        }
        for name, answer in self.ask("hello", fields).items():
            failure = answer if isinstance(answer, PeerError) else self._greet(name, answer)
            if failure is not None:
                if failure.reason_code in _BEFORE_HELLO:
                    failure = PeerError("worker-did-not-start", failure.detail, fatal=True)
                self._lose(name, "start", failure)

    def _greet(self, name: str, hello: Reply) -> PeerError | None:
        try:
            self._on_hello(self._entrants[name], hello)
        except PeerError as error:
            return error
        return None

    def ready(self, names: Iterable[str], folder: str, precision: str) -> list[str]:
        """Those of ``names`` who have a worker with these weights; fallen ones are started again first.

        A worker is replaced a few times in a session; one that is not installed is not tried again.
        """
        names = list(names)
        again = []
        for name in names:
            if name not in self.missing:
                continue
            _, failure = self.missing[name]
            if failure.reason_code != "not-installed" and self._restarts[name] < self._most_restarts:
                self._restarts[name] += 1
                again.append(name)
        self.start(again)
        loading = [n for n in names if n in self._peers and self._weights.get(n) != folder]
        fields = {name: {"folder": folder, "precision": precision} for name in loading}
        for name, answer in self.ask("load", fields).items():
            if isinstance(answer, PeerError):
                self._lose(name, "load", answer)
            else:
                self._weights[name] = folder
        return [name for name in names if name in self._peers]

    def ask(self, op: str, fields: Mapping[str, Mapping[str, Any]]) -> Answers:
        """Ask several workers at the same time; each gets its own fields.

        Returns:
            For each name the reply, or the failure. After a fatal one the process is ended.
        """
        answers: Answers = {}
        for name, own in fields.items():
            try:
                self._peers[name].send(op, **own)
            except PeerError as error:
                answers[name] = error
        for name in fields:
            if name not in answers:
                try:
                    answers[name] = self._peers[name].receive(self._timeout_s)
                except PeerError as error:
                    answers[name] = error
        for name, answer in answers.items():
            if isinstance(answer, PeerError) and (answer.fatal or answer.reason_code in _STICKY):
                self._lose(name, op, answer)
        return {name: answers[name] for name in fields}

    def retire(self, name: str, why: PeerError) -> None:
        """End a worker whose process cannot be trusted any more; the next cell gets a new one."""
        self._lose(name, "start", why)

    def has(self, name: str) -> bool:
        """Whether ``name`` has a worker now."""
        return name in self._peers

    def _lose(self, name: str, stage: str, why: PeerError) -> None:
        self.missing[name] = (stage, why)
        self._weights.pop(name, None)
        peer = self._peers.pop(name, None)
        if peer is not None:
            peer.close(gently=False)

    def close(self, *, gently: bool) -> None:
        """End every worker; with ``gently``, ask them to quit first."""
        for peer in self._peers.values():
            peer.close(gently=gently)
        self._peers.clear()
