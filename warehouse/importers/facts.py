"""Facts of the command line that an importer has no use for: said, not swallowed."""

from __future__ import annotations

from collections.abc import Collection

from warehouse.importers.base import Given, Parsed

SERVED = ("engine", "model", "device", "prefix_cache")  # what a serving benchmark may lack


def note_unused(parsed: Parsed, given: Given, used: Collection[str]) -> None:
    """Add a note for each given fact that is not among ``used``."""
    for name in given.facts():
        if name not in used:
            parsed.note(
                f"--{name.replace('_', '-')} changes nothing here: the file has it, or such files have no place for it"
            )
