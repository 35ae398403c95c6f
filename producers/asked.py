"""Checks of what a command was asked that need no torch: they come before anything is written.

A run that cannot start for a misspelt name would stay in the lake, where a gate is judged by every run of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from producers.errors import UsageError

# Models known by name; `producers.models.load` has their loaders.
MODEL_NAMES = ("upcycled-smollm2", "deepseek-moe-16b", "tiny-mixtral")
WEIGHT_FILES = ("*.safetensors", "*.bin")
_INT64_MAX = 2**63 - 1
_LONGEST_S = 1e7


def refuse_unloadable(model: str) -> None:
    """Refuse a model that is neither known by name nor a checkpoint's folder.

    Raises:
        UsageError: it is not.
    """
    if model in MODEL_NAMES:
        return
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"--model '{model}' is neither a model known by name ({', '.join(MODEL_NAMES)}) nor a folder with a config.json."
        )
    if not any(file for pattern in WEIGHT_FILES for file in folder.glob(pattern)):
        raise UsageError(f"--model {model} has a config.json and no weights ({' or '.join(WEIGHT_FILES)}).")


def refuse_unreadable(text: str | None) -> None:
    """Refuse a text that cannot be read, is not UTF-8 or is blank; None is the text of the command.

    Raises:
        UsageError: with the reason.
    """
    if text is None:
        return
    try:
        found = Path(text).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The text {text} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The text {text} is not UTF-8 (byte {error.start}).") from error
    if not found.strip():
        raise UsageError(f"The text {text} is empty: there is nothing to tokenise.")


def whole_seed(seed: int) -> int:
    """Return ``seed`` if the lake can hold it.

    Raises:
        UsageError: it is negative, or over 63 bits.
    """
    if not 0 <= seed <= _INT64_MAX:
        raise UsageError(f"--seed is {seed}; give a whole number from 0 to {_INT64_MAX}.")
    return seed


def seconds(option: str, value: float) -> float:
    """Return ``value`` if one can wait for so long.

    Raises:
        UsageError: it is not over 0, no number, or endless.
    """
    if not 0 < value <= _LONGEST_S:
        raise UsageError(f"--{option} is {value:g}; give seconds over 0 and at most {_LONGEST_S:g}.")
    return value


def names(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in comma lists; empty where the option was not given.

    Raises:
        UsageError: it was given and names nothing.
    """
    found = tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())
    if given and not found:
        raise UsageError(f"--{option} names nothing; leave it out for the policy's, or name some.")
    return found
