"""`--baseline REV`: dispatch of an earlier commit as a contestant beside today's."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from producers.errors import UsageError


def extract(root: Path, revision: str, folder: Path) -> str:
    """Unpack the package ``dispatch`` of a git revision.

    Only ``dispatch`` is taken: the worker that runs it is today's, so that both are timed alike.

    Args:
        root: the checkout.
        revision: anything that git understands.
        folder: where ``dispatch`` is put; put it first on the worker's import path.

    Returns:
        The full commit hash.

    Raises:
        UsageError: no git, no checkout, no such revision, or no dispatch in it.
    """
    commit = _git(root, revision, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    name = commit.decode().strip()
    archive = _git(root, revision, "archive", "--format=tar", name, "dispatch")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return name


def _git(root: Path, revision: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            check=True,
            timeout=120,
        )
    except FileNotFoundError as error:
        raise UsageError("--baseline needs git, which was not found on the PATH.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(
            f"--baseline {revision}: git {arguments[0]} failed ({said[-1] if said else 'no message'}); "
            "name a commit of this checkout that has a dispatch folder."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"--baseline {revision}: git {arguments[0]} took over 120 s.") from error
    return done.stdout
