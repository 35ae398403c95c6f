"""Identifiers that sort by time."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


def new_run_id(now: datetime | None = None) -> str:
    """Return a run identifier ``YYYYMMDDTHHMMSSZ-xxxxxxxx`` in UTC; the last part is random."""
    return f"{_utc(now):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def new_file_name(now: datetime | None = None) -> str:
    """Return a name for a lake file, ``YYYYMMDDTHHMMSSffffffZ-xxxxxxxx.parquet``."""
    return f"{_utc(now):%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}.parquet"


def _utc(now: datetime | None) -> datetime:
    return datetime.now(UTC) if now is None else now.astimezone(UTC)
