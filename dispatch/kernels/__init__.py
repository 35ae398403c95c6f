"""The kernel families: what :func:`dispatch.fused_moe` can run.

A family is a module with a :class:`dispatch.kernels.family.Family` object called ``FAMILY``. To add one,
write the module and name it in :data:`FAMILIES`; ``auto`` asks the families in that order. The modules
import Triton, so they are imported when first asked for, never by ``import dispatch``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from typing import TYPE_CHECKING

from dispatch.errors import InvalidInputError, TritonUnavailableError, UnsupportedError

if TYPE_CHECKING:
    from dispatch.config import Problem
    from dispatch.kernels.family import Family

FAMILIES = {
    "naive": "dispatch.kernels.naive",
    "persistent": "dispatch.kernels.persistent",
    "vector": "dispatch.kernels.hopper.vector",
    "stream": "dispatch.kernels.hopper.stream",
    "tiled": "dispatch.kernels.hopper.tiled",
}
AUTO = "auto"
# Families whose kernels run with any tiles; a caller can choose theirs.
ANY_TILES = ("naive", "persistent")


@cache
def load(name: str) -> Family:
    """The family called ``name``.

    Raises:
        InvalidInputError: there is none.
        TritonUnavailableError: Triton cannot be imported.
    """
    if name not in FAMILIES:
        raise InvalidInputError(f"kernel '{name}' is unknown; known are {', '.join([*FAMILIES, AUTO])}.")
    if importlib.util.find_spec("triton") is None:
        raise TritonUnavailableError(
            f"The kernels need Triton, which is not installed here ({sys.platform}; it has wheels for Linux "
            "only): use dispatch.fused_moe_eager, or run on Linux with the extra 'kernels'."
        )
    family: Family = importlib.import_module(FAMILIES[name]).FAMILY
    return family


def choose(problem: Problem, kernel: str) -> Family:
    """The family to run: the one that is named, or for ``auto`` the one that suits the problem best.

    Raises:
        InvalidInputError: no such kernel.
        UnsupportedError: the named kernel refuses the problem.
        TritonUnavailableError: Triton cannot be imported.
    """
    if kernel != AUTO:
        family = load(kernel)
        reason = family.refuses(problem)
        if reason is not None:
            raise UnsupportedError(f"kernel '{kernel}': {reason}")
        return family
    willing = [f for f in map(load, FAMILIES) if f.refuses(problem) is None]
    return max(willing, key=lambda family: family.preference(problem))
