"""Tensors that travel between processes: raw little-endian files in a folder, with a manifest.

``manifest.json`` maps a name to file, dtype, shape and SHA-256. The hash is over the raw bytes, so that
a worker can say what it received without trusting the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from producers.failures import Failure

MANIFEST = "manifest.json"
# What a contestant is given; the reference is not among them.
INPUTS = ("x", "topk_ids", "topk_weights", "w13", "w2", "w13_scale", "w2_scale")

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "int32": torch.int32,
    "int8": torch.int8,
}
_HASH_CHUNK_BYTES = 64 << 20


def dtype_of(name: str) -> torch.dtype:
    """The torch type called ``name``, e.g. ``bfloat16``."""
    return _DTYPES[name]


def create(path: Path, shape: Iterable[int], dtype: torch.dtype) -> torch.Tensor:
    """A new file of the size of a tensor, mapped: what is written into the tensor is in the file.

    Raises:
        FileExistsError: the file is there already.
        OSError: no room.
    """
    shape = tuple(shape)
    size = _numel(shape) * dtype.itemsize
    with path.open("xb") as file:
        file.truncate(size)
        if size and sys.platform == "linux":
            # A mapped file without room kills its writer with SIGBUS; here it is an error with a name.
            os.posix_fallocate(file.fileno(), 0, size)
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(path), shared=True, size=_numel(shape), dtype=dtype).view(shape)


def save(folder: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Store CPU tensors and their manifest; returns name -> SHA-256.

    A tensor that :func:`create` mapped into ``folder`` under ``NAME.bin`` is in place already.
    """
    manifest = {}
    for name, tensor in tensors.items():
        file = folder / f"{name}.bin"
        if not file.exists():
            create(file, tensor.shape, tensor.dtype).copy_(tensor)
        manifest[name] = {
            "file": file.name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "sha256": sha256_of(tensor),
        }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return {name: str(entry["sha256"]) for name, entry in manifest.items()}


def load(folder: Path, device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors of a folder on ``device``; a private copy, so that a contestant cannot change the file.

    Raises:
        Failure: ``inputs-differ``, the manifest or a file is missing, or a file has the wrong size.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure("inputs-differ", f"{folder.name} has no readable {MANIFEST}: {error}") from error
    return {name: _read(folder, entry).to(device) for name, entry in manifest.items()}


def _read(folder: Path, entry: Mapping[str, Any]) -> torch.Tensor:
    shape, dtype = tuple(entry["shape"]), dtype_of(entry["dtype"])
    path, size = folder / entry["file"], _numel(shape) * dtype.itemsize
    held = path.stat().st_size if path.is_file() else 0
    if held != size:
        raise Failure("inputs-differ", f"{folder.name}/{path.name} holds {held} bytes instead of {size}")
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(path), shared=False, size=_numel(shape), dtype=dtype).view(shape)


def sha256_of(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's bytes in row-major, little-endian order, read back from its device."""
    if sys.byteorder != "little":
        raise NotImplementedError("tensors are exchanged in little-endian order; this machine is big-endian")
    digest = hashlib.sha256()
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    for chunk in torch.split(flat, _HASH_CHUNK_BYTES):
        digest.update(chunk.cpu().numpy().data)
    return digest.hexdigest()


def inputs_sha256(hashes: Mapping[str, str]) -> str:
    """One hash over the inputs of a cell (weights, scales, x, ids, router weights), by name.

    Args:
        hashes: name -> SHA-256; names that are no input (the reference) are left out.
    """
    lines = [f"{name} {hashes[name]}\n" for name in sorted(INPUTS) if name in hashes]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _numel(shape: Iterable[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
