"""Errors of the command: each one sentence that says what, where, and what to do."""


class ChecksError(Exception):
    """The command or its configuration is wrong; exit code 2."""


class NoDatabaseError(ChecksError):
    """There is no warehouse at the path, or the file is none."""


class UnknownSuiteError(ChecksError):
    """A suite or rule that does not exist was named."""


class ReportError(ChecksError):
    """The report's folder cannot be written."""
