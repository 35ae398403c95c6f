"""File names of tuned fused-MoE tables: the key that vLLM and SGLang look up.

``E=<experts on a rank>,N=<intermediate size on a rank>,device_name=<name>[,dtype=...][,block_shape=[a,b]]
[,per_channel_quant=True][_down].json``. Device names hold commas, brackets and dashes of their own, so a field
ends where the next known key begins, and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEYS = ("E", "N", "device_name", "dtype", "block_shape", "per_channel_quant")
_FIELD = re.compile(rf"(?:^|,)({'|'.join(_KEYS)})=")
_SHAPE = re.compile(r"\[(\d+),( ?)(\d+)\]")
_FOLDER = re.compile(r"triton_(\d+)_(\d+)_(\d+)")
_DOWN = "_down"


@dataclass(frozen=True)
class TableName:
    """What a table's file name says.

    Attributes:
        experts: E, on one rank.
        n: N, on one rank.
        device: Device name, its underscores as spaces.
        dtype: Of the weights and activations; None for that of the activations.
        block_shape: Of block quantisation, ``'128,128'``; None without.
        per_channel_quant: Whether quantised by channel.
        down: Tuned for the second product alone (SGLang).
        loader: ``vllm`` or ``sglang`` where only one of them spells it so, else None.
    """

    experts: int
    n: int
    device: str
    dtype: str | None = None
    block_shape: str | None = None
    per_channel_quant: bool = False
    down: bool = False
    loader: str | None = None


def looks_like_table(name: str) -> bool:
    """Whether a file name begins like that of a tuned table."""
    return re.match(r"E=[^,]*,N=", name) is not None


def parse_name(name: str) -> TableName:
    """Read a file name, with or without ``.json``.

    Raises:
        ValueError: a field is missing, stands twice, or has a value that is none; the message says which.
    """
    stem = name.removesuffix(".json")
    down = stem.endswith(_DOWN)
    stem = stem.removesuffix(_DOWN)
    marks = list(_FIELD.finditer(stem))
    if not marks or marks[0].start() or len({mark[1] for mark in marks}) < len(marks):
        raise ValueError("the name is not a list of E=, N=, device_name= ... with each key once")
    ends = [mark.start() for mark in marks[1:]] + [len(stem)]
    fields = {mark[1]: stem[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}
    missing = [key for key in _KEYS[:3] if not fields.get(key)]
    if missing:
        raise ValueError(f"the name has no {missing[0]}")
    block, loader = None, "sglang" if down else None
    if "block_shape" in fields:
        shape = _SHAPE.fullmatch(fields["block_shape"])
        if shape is None:
            raise ValueError(f"block_shape={fields['block_shape']} is no pair of numbers in brackets")
        block = f"{int(shape[1])},{int(shape[3])}"
        loader = "sglang" if down or shape[2] else "vllm"
    quant = fields.get("per_channel_quant", "False")
    if quant not in {"True", "False"}:
        raise ValueError(f"per_channel_quant={quant} is neither True nor False")
    return TableName(
        experts=_size("E", fields["E"]),
        n=_size("N", fields["N"]),
        device=fields["device_name"].replace("_", " "),
        dtype=fields.get("dtype") or None,
        block_shape=block,
        per_channel_quant=quant == "True",
        down=down,
        loader=loader,
    )


def triton_version_of_folder(folder: str) -> str | None:
    """Return the version in a folder's name such as ``triton_3_4_0`` (SGLang keeps one folder a version)."""
    found = _FOLDER.fullmatch(folder)
    return ".".join(found.groups()) if found else None


def _size(key: str, digits: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", digits, re.ASCII):
        raise ValueError(f"{key}={digits} is no size")
    return int(digits)
