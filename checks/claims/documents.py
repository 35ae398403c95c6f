"""Which documents a project has scanned: ``[tool.checks] documents`` of its pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from checks.errors import ChecksError


class DocumentsError(ChecksError):
    """The list of documents is wrong, or one of them cannot be read."""


def find(project_root: Path) -> list[Path]:
    """Return the documents that the project's globs match, sorted, each once.

    Raises:
        DocumentsError: pyproject.toml is missing or malformed.
    """
    found: set[Path] = set()
    for glob in _globs(project_root):
        try:
            found |= {p for p in project_root.glob(glob) if p.is_file()}
        except (ValueError, NotImplementedError) as error:
            raise DocumentsError(
                f"{project_root / 'pyproject.toml'}: '{glob}' is no glob inside the project: {error}"
            ) from None
    return sorted(found)


def absent(project_root: Path) -> list[str]:
    """Return the documents that are listed by name and are not there.

    Raises:
        DocumentsError: pyproject.toml is missing or malformed.
    """
    return [
        g for g in _globs(project_root) if not re.search(r"[*?\[]", g) and not (project_root / g).is_file()
    ]


def _globs(project_root: Path) -> list[str]:
    config = project_root / "pyproject.toml"
    try:
        settings = tomllib.loads(config.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DocumentsError(f"there is no {config}; run this in the project, or say where it is") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise DocumentsError(f"{config} cannot be read: {error}") from None
    globs = settings.get("tool", {}).get("checks", {}).get("documents")
    if not isinstance(globs, list) or not globs or not all(isinstance(g, str) and g for g in globs):
        raise DocumentsError(
            f"{config}: [tool.checks] documents has to be a list of globs, e.g. ['README.md', 'docs/**/*.md']"
        )
    return globs


def text_of(document: Path) -> str:
    """Return a document's text.

    Raises:
        DocumentsError: it cannot be read as UTF-8.
    """
    try:
        return document.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentsError(f"{document} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise DocumentsError(f"{document} cannot be read: {error.strerror}") from None
