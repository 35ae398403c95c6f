"""The receipt of a report: what it was written from, so that a later run can say whether it still stands."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from checks.errors import ChecksError

RECEIPT_VERSION = 1
AS_WRITTEN, NO_REPORT = "as written", "no report"
PACKAGES = ("moe-race", "duckdb", "great-expectations", "pandas", "pyarrow")


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def versions() -> dict[str, str]:
    """Versions of the packages that judge; "not installed" where one runs from a checkout."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def view_hashes() -> dict[str, str]:
    """SHA-256 of every SQL file that makes the views and macros, by its path below ``queries/``."""
    root = files("queries")
    return {
        f"{folder}/{entry.name}": sha256(entry.read_bytes())
        for folder in ("macros", "views")
        for entry in sorted((root / folder).iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".sql")
    }


def make(
    *, fingerprint: str, policy_sha256: str, counts: Mapping[str, int], reports: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the receipt of ``reports`` (file name to content)."""
    return {
        "receipt_version": RECEIPT_VERSION,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "lake_fingerprint": fingerprint,
        "policy_sha256": policy_sha256,
        "versions": versions(),
        "views": view_hashes(),
        "counts": dict(counts),
        "reports": {name: sha256(content) for name, content in reports.items()},
    }


def verify(path: Path, *, fingerprint: str, policy_sha256: str) -> Iterator[tuple[str, str]]:
    """Yield (aspect, state) for everything that the receipt at ``path`` vouches for.

    Versions of packages may differ; the lake, the policy, the views and the report files may not.

    Raises:
        ChecksError: the file is no receipt.

    """
    try:
        receipt = json.loads(path.read_text(encoding="utf-8"))
        recorded = (
            receipt["lake_fingerprint"],
            receipt["policy_sha256"],
            dict(receipt["views"]),
            dict(receipt["reports"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ChecksError(
            f"{path} is no receipt of a report ({type(error).__name__}: {error}); delete it"
        ) from None
    lake, policy, views, reports = recorded
    yield "lake", _same(lake == fingerprint)
    yield "policy", _same(policy == policy_sha256)
    now = view_hashes()
    changed = sorted(name for name in views.keys() | now.keys() if views.get(name) != now.get(name))
    yield "views", f"changed ({', '.join(changed)})" if changed else AS_WRITTEN
    for name, digest in sorted(reports.items()):
        try:
            content = (path.parent / name).read_bytes()
        except OSError:
            yield name, "is gone"
        else:
            yield name, _same(sha256(content) == digest)


def _same(equal: bool) -> str:
    return AS_WRITTEN if equal else "changed"
