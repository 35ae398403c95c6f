"""Who can race: the built-in contestants, and those that other packages register.

A package registers one under the entry-point group ``moe_race.contestants``::

    [project.entry-points."moe_race.contestants"]
    my-kernel = "my_package.contestant:MyKernel"

The registry names implementations and imports none of them: the coordinator, which reads it, has
neither torch nor an engine. A contestant of another package belongs to its own house, named like the
entry point, unless the part before a ``/`` says otherwise (``my-house/my-kernel``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

ENTRY_POINT_GROUP = "moe_race.contestants"


@dataclass(frozen=True)
class Registration:
    """How a contestant is found.

    Attributes:
        implementation: ``module:Class`` of a :class:`producers.contestants.base.Contestant`.
        house: whose it is; siblings of one house never decide an outcome against each other.
        options: keyword arguments of the class.
        config_source: ``shipped``, ``tuned``, ``auto`` or ``fixed``.
    """

    implementation: str
    house: str
    options: Mapping[str, Any] = field(default_factory=dict)
    config_source: str | None = None


class UnknownContestantError(LookupError):
    """Nobody registered a contestant of this name; the message lists the known ones."""


def _dispatch(kernel: str, config_source: str) -> Registration:
    return Registration(
        "producers.contestants.dispatch:Dispatch", "dispatch", {"kernel": kernel}, config_source
    )


_BUILT_IN: dict[str, Registration] = {
    "dispatch": _dispatch("auto", "auto"),
    "dispatch-naive": _dispatch("naive", "fixed"),
    "dispatch-persistent": _dispatch("persistent", "fixed"),
    # The A/A control: the same implementation and options as `dispatch`, in a process of its own.
    "dispatch-control": _dispatch("auto", "auto"),
    "vllm": Registration("producers.contestants.vllm:Vllm", "vllm", {}, "shipped"),
    "sglang": Registration("producers.contestants.sglang:Sglang", "sglang", {}, "shipped"),
    "vllm-tuned": Registration("producers.contestants.vllm:VllmTuned", "vllm", {}, "tuned"),
    "sglang-tuned": Registration("producers.contestants.sglang:SglangTuned", "sglang", {}, "tuned"),
    "humming": Registration("producers.contestants.humming:Humming", "humming", {}, "shipped"),
    "triton_kernels": Registration(
        "producers.contestants.triton_kernels:TritonKernels", "triton_kernels", {}, "shipped"
    ),
    "torch-grouped": Registration("producers.contestants.torch_grouped:TorchGrouped", "torch", {}, "fixed"),
    "torch-eager": Registration("producers.contestants.torch_eager:TorchEager", "torch", {}, "fixed"),
    "example": Registration("producers.contestants.example:Example", "example", {}, "fixed"),
}


def registry() -> dict[str, Registration]:
    """Every known contestant by name; a built-in name cannot be taken by another package."""
    found = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (e.name, e.value)):
        house, slash, name = entry.name.partition("/")
        found[name if slash else house] = Registration(entry.value, house)
    return {**found, **_BUILT_IN}


def find(name: str) -> Registration:
    """The contestant called ``name``.

    Raises:
        UnknownContestantError: nobody registered it.
    """
    known = registry()
    if name not in known:
        raise UnknownContestantError(
            f"There is no contestant '{name}'; known are {', '.join(sorted(known))}."
        )
    return known[name]
