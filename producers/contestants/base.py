"""What a contestant is: a class that turns a cell's inputs into a launch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from producers.device import version_of
from producers.workloads import Cell

Launch = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """The tensors of a cell on the device; nobody may write into them.

    Attributes:
        x: [M, H] bfloat16, or float16 in precision fp16.
        w13: [E, 2 I, H], gate rows first, then up rows; the type of x, or int8.
        w2: [E, H, I]; the type of x, or int8.
        topk_weights: [M, k] float32.
        topk_ids: [M, k] int32, distinct within a row.
        w13_scale: [E, 2 I] float32 in the int8 precisions, else None.
        w2_scale: [E, H] float32 in the int8 precisions, else None.
    """

    x: torch.Tensor
    w13: torch.Tensor
    w2: torch.Tensor
    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    w13_scale: torch.Tensor | None = None
    w2_scale: torch.Tensor | None = None

    def named(self) -> dict[str, torch.Tensor]:
        """The tensors that are there, by name."""
        return {name: tensor for name, tensor in vars(self).items() if tensor is not None}


class Contestant(ABC):
    """One implementation. Its constructor imports what it needs; ImportError means not installed.

    Attributes:
        name: how the race calls it.
        house: whose it is.
        package: import name of the package whose version and sources identify the implementation.
        capturable: False where a call synchronises with the host by design, so that CUDA-graph capture
            need not be tried.
    """

    name: ClassVar[str] = ""
    house: ClassVar[str] = ""
    package: ClassVar[str] = ""
    capturable: ClassVar[bool] = True

    def versions(self) -> dict[str, str]:
        """Versions by package; the entry of :attr:`package` is the one that the lake keeps."""
        version = version_of(self.package) if self.package else None
        return {} if version is None else {self.package: version}

    def source_sha256(self) -> str | None:
        """SHA-256 over names and contents of the ``.py`` and ``.json`` files of :attr:`package`."""
        return package_sha256(self.package) if self.package else None

    def supports(self, cell: Cell) -> str | None:  # noqa: ARG002 - subclasses look at the cell
        """Why this cell cannot be run, in a sentence; None if it can."""
        return None

    @abstractmethod
    def prepare(self, cell: Cell, inputs: Inputs) -> Launch:
        """A launch: no arguments, runs on the current stream, returns the output [M, H] in x's type.

        It is called once for each timed execution, eager and under capture alike. What is done here
        (repacking, tuning, compiling) is not timed.
        """

    def facts(self) -> dict[str, Any]:
        """Of the cell prepared last: config_source, config_json, tuned_triton_version, as far as known."""
        return {}


def load_class(implementation: str) -> type[Contestant]:
    """The class behind ``module:Class``.

    Raises:
        ImportError: the module, or a package that it needs, is not there.
        TypeError: there is no such class in it, or it is no contestant.
    """
    module, colon, name = implementation.partition(":")
    if not colon or not name:
        raise TypeError(f"'{implementation}' is not module:Class")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, Contestant)):
        raise TypeError(f"'{implementation}' names no Contestant class")
    return found


def package_sha256(package: str) -> str | None:
    """SHA-256 over the sources of an importable package or module; None where it has no files."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        roots = sorted(Path(location) for location in spec.submodule_search_locations)
        files = [
            (p.relative_to(r).as_posix(), p) for r in roots for p in sorted(r.rglob("*")) if _is_source(p)
        ]
    elif spec.origin and Path(spec.origin).is_file():
        files = [(Path(spec.origin).name, Path(spec.origin))]
    else:
        return None
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _is_source(path: Path) -> bool:
    return path.suffix in {".py", ".json"} and path.is_file()


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """SiLU of the first half of the last axis times the second half: [..., 2 I] -> [..., I]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def config_text(config: Mapping[str, Any]) -> str:
    """A configuration as the lake keeps it: canonical JSON."""
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"), default=str)


def column(scale: torch.Tensor | None) -> torch.Tensor | None:
    """Scales [E, N] as [E, N, 1], the engines' layout of per-channel weight scales."""
    return None if scale is None else scale.unsqueeze(-1)
