"""The client's processes: started once, a load is dealt out to them, their answers are put together again.

One process sends its requests one after the other; with many in flight that alone delays the last by what it
takes to write all the others. Several processes share the lanes, each with requests of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from producers.errors import PeerError
from producers.process import Peer

MAX_STARTS = 3  # what died under load may do so again
_HELLO_S = 120.0
_SLACK_S = 60.0
_LEAD_S = 0.2  # a process has read its share by then

Answer = Mapping[str, Any]


class Clients:
    """The processes that make the load.

    Args:
        start: starts one.
        count: how many share a load (never more than lanes).
    """

    def __init__(self, start: Callable[[], Peer], count: int) -> None:
        self._start = start
        self.count = count
        self._starts = 0
        self._peers: list[Peer] = []
        self.columns: dict[str, Any] = {}  # client and client_version of serving_runs, once they are known

    def connect(self) -> None:
        """Have all processes answer.

        Raises:
            PeerError: one does not start, or they died too often.
        """
        if self._peers:
            return
        if self._starts == MAX_STARTS:
            raise PeerError("worker-died", f"the client died {MAX_STARTS} times", fatal=True)
        self._starts += 1
        try:
            for _ in range(self.count):
                self._peers.append(self._start())
            hellos = [peer.request("hello", _HELLO_S) for peer in self._peers]
        except PeerError:
            self.close()
            raise
        self.columns = {name: hellos[0][name] for name in ("client", "client_version")}

    def point(
        self,
        requests: Sequence[Mapping[str, Any]],
        *,
        concurrency: int,
        deadline_s: float,
        **common: Any,
    ) -> Answer:
        """Send requests (see :mod:`producers.serve.client`), dealt out in turn.

        Returns:
            ``results`` in the order of the requests; ``duration_s`` to the last end; ``cpu_s`` of the busiest
            process.

        Raises:
            PeerError: a process died or does not answer; all of them are gone then.
        """
        peers = self._peers[: min(self.count, concurrency, len(requests))]
        begin_at = time.time() + _LEAD_S
        try:
            for place, peer in enumerate(peers):
                peer.send(
                    "point",
                    requests=list(requests[place :: len(peers)]),
                    concurrency=len(range(place, concurrency, len(peers))),
                    begin_at=begin_at,
                    deadline_s=deadline_s,
                    **common,
                )
            answers = [peer.receive(deadline_s + _SLACK_S) for peer in peers]
        except BaseException:
            self.close()  # one of them may still be sending
            raise
        results: list[Any] = [None] * len(requests)
        for place, answer in enumerate(answers):
            results[place :: len(peers)] = answer["results"]
        return {
            "results": results,
            "duration_s": max(answer["duration_s"] for answer in answers),
            "cpu_s": max(answer["cpu_s"] for answer in answers),
        }

    def close(self) -> None:
        """End the processes."""
        for peer in self._peers:
            peer.close()
        self._peers = []
