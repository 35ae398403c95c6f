"""Which files a command line means: those that it names, and all files of the folders that it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from warehouse.errors import StorageError, storage_error

_PYTORCH = ".pytorch.json"


@dataclass(frozen=True)
class Found:
    """A file: its path, its name in the lake, whether the user named it, and why it is left out (None: it is not)."""

    path: Path
    name: str
    named: bool
    skip: str | None = None


def find(paths: Sequence[Path]) -> list[Found]:
    """Return the files that are meant, each once, those of a folder in the order of their names.

    vLLM writes NAME.pytorch.json, the same run for another dashboard, beside NAME.json; it is left out with
    that reason. A sweep's summary.json comes before the run=K.json beside it: the same runs, with the server's
    settings that older versions wrote only there.

    Raises:
        StorageError: a path is not there, or a folder cannot be listed.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        if path.is_dir():
            for file in _files(path):
                name = (Path(path.resolve().name) / file.relative_to(path)).as_posix()
                found.setdefault(file.resolve(), Found(file, name, named=False, skip=_skip(file)))
        elif path.is_file():
            found.setdefault(path.resolve(), Found(path, path.name, named=True, skip=_skip(path)))
        else:
            raise StorageError(f"There is no file or folder {path}; name one that is there.")
    return list(found.values())


def _files(folder: Path) -> list[Path]:
    def order(path: Path) -> tuple[str, bool, str]:
        return str(path.parent), path.name != "summary.json", path.name

    def refuse(error: OSError) -> NoReturn:  # a folder that cannot be listed is no empty one
        raise storage_error(f"cannot list {error.filename or folder}", error) from None

    walk = os.walk(folder, onerror=refuse)
    paths = (Path(here, name) for here, _, names in walk for name in names)
    return sorted((path for path in paths if path.is_file()), key=order)


def _skip(file: Path) -> str | None:
    if file.name.endswith(_PYTORCH):
        original = file.with_name(file.name.removesuffix(_PYTORCH) + ".json")
        if original.exists():
            return f"the same run as {original.name}, written for another dashboard"
    return None
