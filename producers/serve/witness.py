"""A process that marks the run as interrupted where its producer vanishes while no server runs.

While one runs, its keeper ends it first and marks the run then; both may come to it, and
:func:`producers.serve.epitaph.mark` takes the first.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from producers.serve.server import KEEPER

_END_S = 10.0


@contextlib.contextmanager
def witness(epitaph: Mapping[str, Any]) -> Iterator[None]:
    """Have the epitaph run should this process be gone before the end of the block.

    Args:
        epitaph: command, env and cwd, as :class:`producers.serve.server.Server` takes it.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(KEEPER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the producer
        bufsize=0,
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker, PIPE was given
    try:
        process.stdin.write(json.dumps({"command": None, "epitaph": dict(epitaph)}).encode() + b"\n")
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody ended it
            process.stdin.write(b"done\n")
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
