"""Tuned fused-MoE tables of vLLM and SGLang: one JSON object, launch parameters by number of tokens.

The shape, device and number formats stand in the file's name alone (:mod:`warehouse.importers.moe_names`). Keys
that are no number are metadata, such as ``triton_version``. The set of keys is kept as it is, in the order of the
file, which decides between two keys equally near (view ``tuned_ranges``). There are no timings in these files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.importers.base import FormatError, Given, Importer, Parsed, RecordError, Row
from warehouse.importers.facts import note_unused
from warehouse.importers.moe_names import looks_like_table, parse_name, triton_version_of_folder
from warehouse.importers.source import JSON, Source
from warehouse.importers.values import compact, count, shown, text

_TOKENS = re.compile(r"[1-9]\d{0,17}", re.ASCII)
_COLUMNS = {
    "BLOCK_SIZE_M": "block_size_m",
    "BLOCK_SIZE_N": "block_size_n",
    "BLOCK_SIZE_K": "block_size_k",
    "GROUP_SIZE_M": "group_size_m",
    "num_warps": "num_warps",
    "num_stages": "num_stages",
}
_MARK = "BLOCK_SIZE_M"


def detects(source: Source) -> bool:
    """Whether a file has the name of a tuned table, or entries with block sizes."""
    if source.kind != JSON:
        return False
    entries = (value for value in source.first.values() if isinstance(value, dict))
    return looks_like_table(Path(source.name).name) or any(_MARK in entry for entry in entries)


def parse(source: Source, given: Given) -> Parsed:
    """Return a row of ``tuned_configs`` for each entry.

    Raises:
        FormatError: the file's name does not say for what the table was tuned.
    """
    name = Path(source.name).name
    try:
        table = parse_name(name)
    except ValueError as error:
        raise FormatError(f"a tuned table is known by its name, and {error}; restore the name.") from None
    folder = triton_version_of_folder(source.path.absolute().parent.name)
    about: Row = {
        "source": name,
        "loader": table.loader or ("sglang" if folder else None),
        "device": table.device,
        "experts": table.experts,
        "n": table.n,
        "dtype": table.dtype,
        "block_shape": table.block_shape,
        "per_channel_quant": table.per_channel_quant,
        "down": table.down,
    }
    parsed = Parsed()
    note_unused(parsed, given, ())
    for item in source.items:
        if isinstance(item.value, dict):
            _entries(parsed, item.value, item.place, about, folder)
        else:
            parsed.expect()
            parsed.refuse(item.place, item.problem or "no JSON object with entries by number of tokens")
    return parsed


def _entries(parsed: Parsed, entries: Mapping[str, Any], place: str, about: Row, folder: str | None) -> None:
    metadata = {key: value for key, value in entries.items() if not key.lstrip("-").isdigit()}
    for key, entry in entries.items():
        if key in metadata:
            continue
        parsed.expect()
        try:
            if not _TOKENS.fullmatch(key):
                raise RecordError(f"{shown(key)} is no number of tokens")
            if not isinstance(entry, dict):
                raise RecordError(f"the entry is {shown(entry)}, not an object")
            row = {
                **about,
                "tuned_triton_version": text(metadata.get("triton_version")) or folder,
                "tokens": int(key),
                **{column: count(entry.get(name)) for name, column in _COLUMNS.items()},
                "config_json": compact(entry) or "{}",
                "metadata_json": compact(metadata),
            }
        except RecordError as error:
            parsed.refuse(f"{place}, key {key[:20]}", str(error))
            continue
        parsed.add("tuned_configs", row, f"{place}, key {key}")


IMPORTER = Importer(
    name="moe-configs",
    about="tuned fused-MoE tables of vLLM and SGLang (JSON, named E=...,N=...,device_name=...)",
    detects=detects,
    parse=parse,
    name_matters=True,
)
