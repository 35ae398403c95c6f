"""Which files a command line means: those that it names, and all files of the folders that it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from warehouse.errors import StorageError, storage_error

_PYTORCH = ".pytorch.json"
_SHOWN = 80
_INSIDE = "a link to a folder that is imported anyway"


@dataclass(frozen=True)
class Found:
    """A file: its path, its name in the lake, whether the user named it, and why it is left out (None: it is not).

    ``bad``: what is left out may have held records, so the import is partial.
    """

    path: Path
    name: str
    named: bool
    skip: str | None = None
    bad: bool = False


def find(paths: Sequence[Path]) -> list[Found]:
    """Return the files that are meant, each once, those of a folder in the order of their names.

    vLLM writes NAME.pytorch.json, the same run for another dashboard, beside NAME.json; it is left out with
    that reason. A sweep's summary.json comes before the run=K.json beside it: the same runs, with the server's
    settings that older versions wrote only there. Links to folders are not followed, since they may lead in
    circles; they, links to nothing, and pipes are named and not read.

    Raises:
        StorageError: a path is not there, is no file, or a folder cannot be listed or holds no file.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        try:
            _find(path, found)
        except OSError as error:  # too long a name, a circle of links
            raise storage_error(f"cannot look at {str(path)[:_SHOWN]}", error) from None
    return list(found.values())


def _find(path: Path, found: dict[Path, Found]) -> None:
    if path.is_dir():
        files = _files(path)
        if not files:
            raise StorageError(f"There is no file in the folder {path}; name one that holds result files.")
        top = path.resolve()
        for file in files:
            name = (Path(top.name) / file.relative_to(path)).as_posix()
            why = _unread(file, top)
            each = Found(file, name, named=False, skip=why or _skip(file), bad=why not in {None, _INSIDE})
            found.setdefault(file.parent.resolve() / file.name if why else file.resolve(), each)
    elif path.is_file():
        found.setdefault(path.resolve(), Found(path, path.name, named=True, skip=_skip(path)))
    elif path.exists():
        raise StorageError(f"{path} is no regular file; write what it gives into one, and name that.")
    else:
        raise StorageError(f"There is no file or folder {path}; name one that is there.")


def _files(folder: Path) -> list[Path]:
    def order(path: Path) -> tuple[str, bool, str]:
        return str(path.parent), path.name != "summary.json", path.name

    def refuse(error: OSError) -> NoReturn:  # a folder that cannot be listed is no empty one
        raise storage_error(f"cannot list {error.filename or folder}", error) from None

    walk = os.walk(folder, onerror=refuse)
    paths = (Path(here, name) for here, folders, names in walk for name in [*names, *folders])
    return sorted((path for path in paths if path.is_symlink() or not path.is_dir()), key=order)


def _unread(file: Path, top: Path) -> str | None:
    """Why what stands in a folder below ``top`` is no file to read; None where it is one."""
    if file.is_dir():
        if file.resolve().is_relative_to(top):
            return _INSIDE
        return "a link to a folder, which is not followed; name that folder as well"
    if file.is_symlink() and not file.exists():
        return "a link to nothing"
    return None if file.is_file() else "no regular file"


def _skip(file: Path) -> str | None:
    if file.name.endswith(_PYTORCH):
        original = file.with_name(file.name.removesuffix(_PYTORCH) + ".json")
        if original.exists():
            return f"the same run as {original.name}, written for another dashboard"
    return None
