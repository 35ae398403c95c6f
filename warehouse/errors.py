"""Errors of the data side: each message is one sentence that says what, where, and what to do.

WarehouseError
|-- SchemaError        rows do not fit the declared schema of their table
|-- StorageError       a folder or file cannot be written or read: permissions, full disk, taken name
|-- NoLakeError        there is no lake at the place that was named
|-- LockedError        another process holds the database open for writing
|-- ConflictError      one identity with two different values
|-- CostError          an amount of money that says too little, or too much
`-- BuildError         the lake is fine and the warehouse could still not be built

Commands print the sentence and end with the error's ``exit_code``.
"""

from __future__ import annotations


class WarehouseError(Exception):
    """Base of everything that this package raises on purpose."""

    exit_code = 2


class SchemaError(WarehouseError):
    """Rows do not fit the declared schema of their table; the message names the column."""


class StorageError(WarehouseError):
    """A folder or file cannot be written or read."""


class NoLakeError(WarehouseError):
    """There is no lake at the place that was named."""


class LockedError(WarehouseError):
    """Another process holds the database open for writing."""


class ConflictError(WarehouseError):
    """The same identity stands in two places with different values."""

    exit_code = 1


class CostError(WarehouseError):
    """An amount of money lacks what makes it a bill or a rate, or names no run."""


class BuildError(WarehouseError):
    """The warehouse could not be built from readable files."""


def storage_error(what: str, error: OSError) -> StorageError:
    """Put an ``OSError`` into the one sentence that people see."""
    why = error.strerror or type(error).__name__
    return StorageError(f"{what}: {why}; free space, change the permissions, or name another folder.")
