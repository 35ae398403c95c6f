"""Text that every Python carries: its own documentation."""

from __future__ import annotations

import hashlib
import pydoc_data.topics


def python_documentation() -> str:
    """The topics of ``help()``, in the order of their names.

    The text belongs to the Python version: what was evaluated on it names its hash (:func:`text_sha256`).
    """
    topics = pydoc_data.topics.topics
    return "\n\n".join(topics[name] for name in sorted(topics))


def text_sha256(text: str) -> str:
    """SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def tokens_sha256(ids: list[int]) -> str:
    """SHA-256 of token ids, each four bytes, little endian."""
    return hashlib.sha256(b"".join(i.to_bytes(4, "little") for i in ids)).hexdigest()
