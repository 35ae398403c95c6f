"""``warehouse import``: the files of a command line, one after the other, into a lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warehouse.errors import WarehouseError
from warehouse.importers.base import FormatError, Given, Importer, Kind, MissingFactError, Parsed
from warehouse.importers.files import Found, find
from warehouse.importers.registry import by_name, detect
from warehouse.importers.source import BINARY, EMPTY, Source
from warehouse.importers.store import Known, Stored, store

DATA_SUFFIXES = {".json", ".jsonl", ".csv", ".parquet"}


class UnforeseenError(FormatError):
    """An importer met something that it does not handle; the file is refused whole."""


@dataclass(frozen=True)
class Skipped:
    """A file that gave nothing, and why. ``bad``: it should have, so the import is partial."""

    source: str
    reason: str
    bad: bool
    usage: bool = False  # an option would have helped


@dataclass
class ImportReport:
    """What became of every file, in order."""

    outcomes: list[Stored | Skipped] = field(default_factory=list)

    @property
    def stored(self) -> list[Stored]:
        """Files that were read."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Stored)]

    def exit_code(self, *, allow_partial: bool) -> int:
        """0: every record is accounted for by a row (or is there already); 2: an option is missing; 3: partial.

        With ``allow_partial`` bad records of a file that gave good ones are forgiven; a file that gave nothing
        is not.
        """
        skipped = [outcome for outcome in self.outcomes if isinstance(outcome, Skipped) and outcome.bad]
        if any(outcome.usage for outcome in skipped):
            return 2
        if skipped or any(_fruitless(outcome) for outcome in self.stored):
            return 3
        partial = any(outcome.refused(Kind.BAD) for outcome in self.stored)
        return 3 if partial and not allow_partial else 0


def import_paths(
    paths: Sequence[Path],
    lake: Path,
    format_name: str | None = None,
    given: Given | None = None,
    beside: Sequence[Path] = (),
) -> Iterator[Stored | Skipped]:
    """Import files, and all files of folders; yields what became of each as soon as it is in the lake.

    Args:
        paths: files and folders.
        lake: the lake to add to; created where it is absent.
        format_name: of all files; None: each file's own is detected.
        given: facts that the files lack.
        beside: other lakes that are built together with this one: what they have is known as well.

    Raises:
        UnknownFormatError: there is no such format.
        StorageError: a path does not exist, or the lake cannot be read or written.
    """
    importer = by_name(format_name) if format_name else None
    found = find(paths)
    known = Known.of(lake, *beside)
    for each in found:
        yield _import_file(each, lake, importer, given or Given(), known)


def _import_file(
    found: Found, lake: Path, importer: Importer | None, given: Given, known: Known
) -> Stored | Skipped:
    source = Source(found.path, found.name)
    if found.skip:
        return Skipped(source.name, found.skip, bad=found.bad)
    expected = found.named or source.path.suffix.lower() in DATA_SUFFIXES
    try:
        if source.kind in {EMPTY, BINARY}:
            raise FormatError(f"the file is {source.kind}.")
        chosen = importer or detect(source)
        expected = expected or importer is None  # a file that was recognised has to give its records
        return store(lake, chosen, source, given, parse(chosen, source, given), known)
    except FormatError as error:
        usage = isinstance(error, MissingFactError)
        return Skipped(source.name, str(error), bad=expected or usage, usage=usage)


def parse(importer: Importer, source: Source, given: Given) -> Parsed:
    """Parse; what an importer did not foresee refuses this one file by name, and the others go on."""
    try:
        parsed = importer.parse(source, given)
    except WarehouseError:
        raise
    except Exception as error:  # a folder's import survives one strange file
        raise UnforeseenError(
            f"it cannot be read as {importer.name} ({type(error).__name__}: {str(error)[:200]})."
        ) from error
    if not parsed.records_in:
        raise FormatError(f"there is no record of {importer.name} in it.")
    return parsed


def _fruitless(outcome: Stored) -> bool:
    """Whether every record of a file was bad."""
    return outcome.records_in > 0 and outcome.refused(Kind.BAD) == outcome.records_in
