"""How a producer's command ends: one sentence and an exit code, whatever stopped it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from checks.policy import PolicyError
from producers.errors import RaceError, StoppedError, UsageError
from warehouse.errors import WarehouseError

RESUMABLE = "--resume goes on with what the lake holds."
_CANNOT_WRITE = 1


def ended(name: str, work: Callable[[], int], kept: str = RESUMABLE) -> int:
    """Run a command and return its exit code; what was expected to go wrong is a sentence, no traceback.

    Args:
        name: what the sentence begins with.
        work: the command; returns its exit code.
        kept: what there is after a second Ctrl-C.
    """
    try:
        return work()
    except (RaceError, WarehouseError, PolicyError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        if isinstance(error, RaceError):
            return error.exit_code
        return UsageError.exit_code if isinstance(error, PolicyError) else _CANNOT_WRITE
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: stopped at once; {kept}\n")
        return StoppedError.exit_code
