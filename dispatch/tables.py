"""Measured tiles: one JSON file a device in ``dispatch/configs``.

    {"device": "h200", "triton_version": "3.7.1",
     "entries": [{"kernel": "naive", "precision": "bf16", "experts": 64, "top_k": 6,
                  "hidden": 2048, "intermediate": 1408,
                  "tokens": {"1": {"gate_up": {"block_m": 16, ...}, "down": {...}}, ...}}]}

A token count between two measured ones takes the tiles of one of them, whichever the cost model of
:func:`padded_cost` finds cheaper for it: there is no count at which tiles made for another regime are
snapped to. Outside the measured range by more than a factor of two, the model decides.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dispatch.config import MoeConfig, Problem, TileConfig, model_config
from dispatch.errors import ConfigError

FOLDER = Path(__file__).parent / "configs"
_BEYOND = 2
_log = logging.getLogger("dispatch")


@dataclass(frozen=True)
class Table:
    """The measured tiles of one device.

    Attributes:
        triton_version: Triton that they were measured under.
        entries: (kernel, precision, E, k, H, I) -> tokens, ascending -> (gate_up, down).
    """

    triton_version: str
    entries: Mapping[tuple[str, str, int, int, int, int], Mapping[int, tuple[TileConfig, TileConfig]]]


def configure(
    problem: Problem, kernel: str, model: Callable[[Problem], MoeConfig] = model_config
) -> MoeConfig:
    """Tiles for a problem: measured for it, measured for a neighbour, or from the model.

    Args:
        problem: shape and device.
        kernel: the family's name; a table has tiles for each family.
        model: the family's own tiles for a shape that nobody measured.

    Raises:
        ConfigError: the device's table cannot be read.
    """
    table = None if problem.device.interpreted else load(normalise_device(problem.device.name))
    if table is None:
        return model(problem)
    shape = (problem.experts, problem.top_k, problem.hidden, problem.intermediate)
    measured = table.entries.get((kernel, str(problem.precision), *shape), {})
    tokens = problem.tokens
    if tokens in measured:
        return MoeConfig(*measured[tokens], "tuned", f"{tokens} tokens were measured", table.triton_version)
    below = [t for t in measured if t < tokens][-1:]
    above = [t for t in measured if t > tokens][:1]
    near = below + above
    if not near or (len(near) == 1 and not 1 / _BEYOND <= tokens / near[0] <= _BEYOND):
        return model(problem)
    best = min(near, key=lambda t: (padded_cost(problem, measured[t][0]), abs(t - tokens)))
    return MoeConfig(*measured[best], "interpolated", f"measured at {best} tokens", table.triton_version)


def padded_cost(problem: Problem, tile: TileConfig) -> float:
    """Rows that the products compute per expert, plus what reading its weights costs, in rows.

    With r rows an expert and tiles of b rows, an expert takes ``ceil(r / b)`` tiles in the mean; each
    multiplies b rows and reads the weights once more. A weight is worth about 150 multiplications at the
    ratio of bf16 rate to bandwidth of the datacentre parts from A100 (200) to H200 (165).
    """
    tiles = -(-max(problem.rows_per_expert, 1.0) // tile.block_m)
    return tiles * (tile.block_m + 150.0)


@cache
def load(device: str) -> Table | None:
    """The table of a device by its normalised name; None if there is none.

    Raises:
        ConfigError: the file is there and cannot be used; the message says where it is wrong.
    """
    path = FOLDER / f"{device}.json"
    if not path.is_file():
        return None
    table = parse(path.read_text(encoding="utf-8"), path.name)
    running = _triton_version()
    if running is not None and running != table.triton_version:
        _log.warning(
            "%s was measured under Triton %s and this is %s: its tiles are right, "
            "perhaps no longer the fastest",
            path.name,
            table.triton_version,
            running,
        )
    return table


def parse(text: str, name: str) -> Table:
    """A table from its JSON text; ``name`` is what errors call it.

    Raises:
        ConfigError: it is not JSON, lacks a field, or has tiles that no kernel takes.
    """
    try:
        document = json.loads(text)
        entries = {_key(entry): _tokens(entry["tokens"]) for entry in document["entries"]}
        return Table(str(document["triton_version"]), entries)
    except KeyError as missing:
        raise ConfigError(f"{name}: the field {missing} is missing; tune the device again.") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{name}: {error}; tune the device again.") from None


def merge(
    document: Mapping[str, Any], kernel: str, problem: Problem, config: MoeConfig, triton_version: str
) -> dict[str, Any]:
    """A table's document with the tiles of one more problem; what it has of the problem is replaced.

    Args:
        document: a table as JSON, or an empty one. One of another Triton version is left behind whole: its
            tiles were measured on other code.
        kernel: the family.
        problem: shape, precision and token count.
        config: its tiles.
        triton_version: Triton that they were measured under.
    """
    kept = document.get("entries", []) if document.get("triton_version") == triton_version else []
    shape = {name: getattr(problem, name) for name in ("experts", "top_k", "hidden", "intermediate")}
    key = {"kernel": kernel, "precision": str(problem.precision), **shape}
    entries = {_key(entry): dict(entry) for entry in kept}
    entry = entries.setdefault(_key(key), {**key, "tokens": {}})
    tiles = {"gate_up": asdict(config.gate_up), "down": asdict(config.down)}
    counts = {**entry["tokens"], str(problem.tokens): tiles}
    entry["tokens"] = dict(sorted(counts.items(), key=lambda item: int(item[0])))
    return {
        "device": normalise_device(problem.device.name),
        "triton_version": triton_version,
        "entries": [entries[each] for each in sorted(entries)],
    }


def _key(entry: Mapping[str, Any]) -> tuple[str, str, int, int, int, int]:
    shape = (int(entry[field]) for field in ("experts", "top_k", "hidden", "intermediate"))
    return (str(entry["kernel"]), str(entry["precision"]), *shape)  # type: ignore[return-value]


def _tokens(tokens: Mapping[str, Any]) -> dict[int, tuple[TileConfig, TileConfig]]:
    found = {}
    for count, products in sorted(tokens.items(), key=lambda item: int(item[0])):
        gate_up, down = TileConfig(**products["gate_up"]), TileConfig(**products["down"])
        for tile in (gate_up, down):
            blocks = (tile.block_m, tile.block_n, tile.block_k)
            if any(b < 1 or b & (b - 1) for b in blocks):
                raise ValueError(f"{count} tokens: blocks {blocks} are not powers of two")
        if gate_up.block_m != down.block_m:
            raise ValueError(f"{count} tokens: both products share one schedule and need one block_m")
        found[int(count)] = (gate_up, down)
    return found


def normalise_device(name: str) -> str:
    """The table's name for a device as torch reports it.

    Variants of one chip share a table: 'NVIDIA H200', 'NVIDIA H200 NVL' and 'NVIDIA H200 MIG 1g.18gb' are
    ``h200``, 'NVIDIA A100-SXM4-80GB' is ``a100``. Names that do not begin with a datacentre part's number
    keep all their words: 'NVIDIA GeForce RTX 4090' is ``geforce_rtx_4090``.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    while words and words[0] in {"nvidia", "tesla", "graphics", "device"}:
        words.pop(0)
    if words and re.fullmatch(r"[a-z]{1,2}\d{1,3}[a-z]?", words[0]):
        return words[0]
    return "_".join(words) or "unknown"


def _triton_version() -> str | None:
    try:
        return version("triton")
    except PackageNotFoundError:
        return None
