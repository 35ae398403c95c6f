"""What can stop a race, and the exit code that each gives.

    RaceError              one sentence: what, where, what to do
    |-- UsageError         2  an option, the configuration file or the policy is wrong
    |-- StoppedError            4  the budget is spent, or Ctrl-C or SIGTERM came; `--resume` goes on
    `-- RefusedError            5  the race may not run here and now (lock, busy card, changed environment)

Exit code 0 is a race whose cells are all complete, 3 one that ended with an incomplete cell.
"""

from __future__ import annotations

COMPLETE = 0
INCOMPLETE = 3


class RaceError(Exception):
    """Base class; the message is one sentence for the person at the terminal."""

    exit_code = 1


class UsageError(RaceError):
    """An option or a value of the configuration is wrong."""

    exit_code = 2


class StoppedError(RaceError):
    """The race stopped cleanly before its end and can be resumed."""

    exit_code = 4


class RefusedError(RaceError):
    """The race was not started, or went no further, because its numbers could not be trusted."""

    exit_code = 5


class PeerError(Exception):
    """A worker or the referee did not do what it was asked.

    Attributes:
        reason_code: a code of :mod:`producers.outcomes`.
        detail: what happened, in a sentence.
        fatal: whether the process is gone or out of step and has to be replaced.
        fault: ``contestant`` or ``environment`` where the peer said it, else None.
    """

    def __init__(self, reason_code: str, detail: str, *, fatal: bool, fault: str | None = None) -> None:
        super().__init__(f"{reason_code}: {detail}")
        self.reason_code = reason_code
        self.detail = detail
        self.fatal = fatal
        self.fault = fault
