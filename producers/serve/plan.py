"""What a serve run measures: points (engine, concurrency, repeat) in a shuffled order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from producers.errors import UsageError

_FEW, _LEAST = 4, 8


class Point(NamedTuple):
    """One measurement: an engine under one load, once."""

    engine: str
    concurrency: int
    repeat: int

    def __str__(self) -> str:
        return f"{self.engine}, {self.concurrency} in flight, repeat {self.repeat}"


@dataclass(frozen=True)
class Plan:
    """What was asked for; stored with the run, and kept by a run that is resumed.

    Attributes:
        engines: every engine of the run, in order.
        model: what rows call it.
        weights: trained, dummy, upcycled; None unknown.
        concurrency: requests in flight.
        repeats: of every point.
        requests: of one point; None: by concurrency, see :func:`requests_of`.
        input_tokens: of every prompt.
        output_tokens: of every answer.
        request_rate: requests per second, Poisson; None: as fast as concurrency allows.
        seed: of prompts, arrivals and orders.
        arguments: engine -> further arguments of its server.
    """

    engines: tuple[str, ...]
    model: str
    weights: str | None
    concurrency: tuple[int, ...]
    repeats: int
    requests: int | None
    input_tokens: int
    output_tokens: int
    request_rate: float | None
    seed: int
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def points(self, engine: str) -> list[Point]:
        """The points of an engine: every repeat visits the concurrencies in a shuffled order of its own."""
        points = []
        for repeat in range(self.repeats):
            order = list(self.concurrency)
            random.Random(f"{self.seed}/order/{engine}/{repeat}").shuffle(order)  # noqa: S311 - reproducible
            points += [Point(engine, concurrency, repeat) for concurrency in order]
        return points

    def requests_of(self, concurrency: int) -> int:
        """Requests of one point: enough for several answers in a row in every lane."""
        if self.requests is not None:
            return self.requests
        return max(_LEAST, (6 if concurrency <= _FEW else 4) * concurrency)

    def to_json(self) -> str:
        """The plan as ``runs.plan_json`` keeps it."""
        return json.dumps(asdict(self), sort_keys=True)


def from_json(stored: Mapping[str, Any]) -> Plan:
    """The plan of :meth:`Plan.to_json`."""
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in stored.items()}
    values["arguments"] = {name: tuple(given) for name, given in stored["arguments"].items()}
    return Plan(**values)


def check_same(stored: Plan, given: Mapping[str, Any], run_id: str) -> None:
    """Refuse plan options that differ from those of the run.

    Raises:
        UsageError: naming the first one.
    """
    kept = asdict(stored)
    for name, value in given.items():
        if kept[name] != value:
            raise UsageError(
                f"'{name.replace('_', '-')}' is {_shown(value)} here and {_shown(kept[name])} in serve run "
                f"'{run_id}'; a resumed run keeps its plan, so leave the option out."
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {' '.join(words)}" for name, words in value.items()) or "none"
    is_many = isinstance(value, Iterable) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_many else repr(value)
