"""The formats that can be imported."""

from __future__ import annotations

import functools
import importlib

from warehouse.importers.base import FormatError, Importer, UsageError
from warehouse.importers.source import Source

MODULES = (
    "vllm_serve",
    "vllm_throughput",
    "sglang_serve",
    "sglang_one_batch",
    "served_cells",
    "guidellm",
    "aiperf",
    "inference_perf",
    "llmperf",
    "inferencemax",
    "triton_perf_report",
    "liger",
    "aiconfigurator",
    "moe_configs",
    "units_csv",
)


class UnknownFormatError(UsageError):
    """No importer has the name that was given."""


@functools.cache
def importers() -> dict[str, Importer]:
    """Return every importer by its name."""
    found = [importlib.import_module(f"warehouse.importers.{name}").IMPORTER for name in MODULES]
    return {importer.name: importer for importer in found}


def by_name(name: str) -> Importer:
    """Return the importer of a format, dashes or underscores.

    Raises:
        UnknownFormatError: there is none.
    """
    known = importers()
    found = known.get(name.strip().lower().replace("_", "-"))
    if found is None:
        raise UnknownFormatError(f"'{name}' is no format that can be imported; there are {', '.join(known)}.")
    return found


def detect(source: Source) -> Importer:
    """Return the importer that recognises ``source``.

    Raises:
        FormatError: none does, or several do.
    """
    found = [importer for importer in importers().values() if importer.detects(source)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(importer.name for importer in found)
        raise FormatError(f"the content fits several formats ({names}); name one with --format.")
    raise FormatError(f"no format recognises {source.describe()}.")
