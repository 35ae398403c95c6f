"""A contestant whose configuration can be chosen: what ``python -m producers.tune`` searches through.

A configuration is a JSON object in the contestant's own words; two are the same where their canonical
texts are (:func:`producers.contestants.base.config_text`).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.contestants.base import Contestant, Inputs, Launch
from producers.workloads import Cell

Config = dict[str, Any]


@dataclass(frozen=True)
class Chip:
    """What the model of :mod:`producers.contestants.tiles` knows of a device.

    Attributes:
        shared_bytes: shared memory that one thread block can have.
        sm_count: streaming multiprocessors.
    """

    shared_bytes: int
    sm_count: int


@dataclass(frozen=True)
class Chosen:
    """The configuration that a search chose for the token count of a cell."""

    cell: Cell
    config: Config


class Tunable(Contestant):
    """A :class:`Contestant` that runs with a configuration which somebody else names."""

    @abstractmethod
    def default(self, cell: Cell) -> Config:
        """What runs as shipped; the search begins with it and never ends with a slower one."""

    @abstractmethod
    def candidates(self, cell: Cell, chip: Chip) -> list[Config]:
        """Configurations worth trying, the likeliest first; legal as far as that is known beforehand."""

    @abstractmethod
    def neighbours(self, cell: Cell, config: Config, chip: Chip) -> list[Config]:
        """Variations of the best configuration of a first pass, for a second one."""

    @abstractmethod
    def prepare_with(self, cell: Cell, inputs: Inputs, config: Config) -> Launch:
        """Like :meth:`Contestant.prepare`, under ``config``."""

    @abstractmethod
    def write_tables(self, folder: Path, chosen: Sequence[Chosen], triton_version: str) -> list[Path]:
        """Write what was chosen in the contestant's own table format; returns the files.

        Entries that the files of ``folder`` hold for other cells stay.
        """


@contextmanager
def restored(context: AbstractContextManager[object]) -> Iterator[None]:
    """Enter ``context`` and leave it as if nothing was raised inside.

    The engines' ``override_config`` restores nothing after an error, and a configuration that does not fit
    the chip is one.
    """
    stack = ExitStack()
    stack.enter_context(context)
    try:
        yield
    finally:
        stack.close()


def write_json(path: Path, document: Mapping[str, Any]) -> Path:
    """Replace ``path`` by a document in one step, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(document, indent=4) + "\n", encoding="utf-8")
    return part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """The document of a table; an empty one where there is none.

    Raises:
        ValueError: it is no JSON object.
    """
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} holds no JSON object")  # noqa: TRY004 - a fault of the file's content
    return document
