"""Bytes of a foreign file as text: UTF-8, with or without a byte order mark, and UTF-16 or UTF-32 with one."""

from __future__ import annotations

import codecs

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def has_byte_order_mark(data: bytes) -> bool:
    """Whether ``data`` begins with the mark of an encoding."""
    return data.startswith(codecs.BOM_UTF8) or any(data.startswith(mark) for mark, _ in _MARKS)


def as_utf8(data: bytes) -> bytes:
    """Return ``data`` in UTF-8 without a mark; bytes that are no text stay as they are, for their line to say so."""
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :]
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace").encode("utf-8", "replace")
    return data


def decoded(data: bytes) -> str:
    """Return ``data`` as text; what is no text becomes the replacement character."""
    return as_utf8(data).decode("utf-8", "replace")
