"""Whether a warehouse still is what its lakes hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from warehouse.lake import fingerprint, require

CURRENT, CHANGED, NOT_AT_HAND = "current", "it changed since", "not at hand"


def lake_states(build_info: Mapping[str, str], lakes: list[Path] | None) -> list[tuple[str, str]]:
    """Return (lakes, state) for the lakes together; without ``lakes``, those that the warehouse was built from.

    A warehouse stands for itself: where the lakes of its build are not on this machine, nothing can be newer.

    Args:
        build_info: the warehouse's table of that name.
        lakes: folders that were named on the command line.

    Raises:
        NoLakeError: a lake that was named is no folder.
        StorageError: a lake cannot be read.
    """
    if lakes:
        require(lakes)
    folders = lakes or [Path(lake) for lake in json.loads(build_info.get("lakes", "[]"))]
    name = ", ".join(f.name if lakes is None else str(f) for f in folders) or "no lake"
    if not folders or not all(f.is_dir() for f in folders):
        return [(name, NOT_AT_HAND)]
    same = fingerprint(folders) == build_info.get("lake_fingerprint")
    return [(name, CURRENT if same else CHANGED)]
