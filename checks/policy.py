"""The policy: thresholds fixed before measuring, read from ``policy.toml``.

Its SHA-256 and its text are stored with every run. Views judge a run by the text in the lake; this module
is for what happens before and beside that: which rivals a device requires, which tolerance holds, and
whether the file is well formed. Standard library only: producers import it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

DEFAULT_PATH = Path(__file__).with_name("policy.toml")
DEFAULT_DEVICE = "default"

Test = tuple[Callable[[Any], bool], str]


class PolicyError(Exception):
    """The policy cannot be read or is malformed: a sentence for each key that is wrong."""


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_COUNT: Test = (
    lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0,
    "a whole number of at least 0",
)
_POSITIVE_COUNT: Test = (lambda v: _COUNT[0](v) and v >= 1, "a whole number of at least 1")
_SHARE: Test = (lambda v: _is_number(v) and 0 <= v <= 1, "a number from 0 to 1")
_PROBABILITY: Test = (lambda v: _is_number(v) and 0 < v < 1, "a number between 0 and 1, without the two")
_RATE: Test = (lambda v: _is_number(v) and 0 < v < float("inf"), "a number above 0")
_NAMES: Test = (
    lambda v: isinstance(v, list) and bool(v) and all(isinstance(n, str) and n for n in v)
    and len(set(v)) == len(v),
    "a list of different names, at least one",
)  # fmt: skip
_RULE: Test = (lambda v: v == "latest complete", "'latest complete', the only rule there is")

# Dotted key -> what its value must be; '*' stands for any name (a device, a precision).
_KEYS: dict[str, Test] = {
    "version": (lambda v: v == 1 and not isinstance(v, bool), "1"),
    "race.min_rounds": _POSITIVE_COUNT,
    "race.min_sessions": _POSITIVE_COUNT,
    "race.tie_band": _SHARE,
    "race.confidence": _PROBABILITY,
    "race.confidence_many": _PROBABILITY,
    "race.noise_quantile": _PROBABILITY,
    "race.repeat_rule": _RULE,
    "race.tolerance.*": _RATE,
    "race.max_noise_floor.*": _SHARE,
    "race.required.*.*": _NAMES,
    "race.floor.refuse_below_datasheet": _SHARE,
    "race.floor.datasheet.*.bytes_per_s": _RATE,
    "race.floor.datasheet.*.bf16_ops_per_s": _RATE,
    "race.floor.datasheet.*.int8_ops_per_s": _RATE,
    "gate.min_positions": _POSITIVE_COUNT,
    "gate.large_gap_logits": _RATE,
    "gate.control_disagreements": _COUNT,
    "gate.required": _NAMES,
    "gate.max_large_gap_share.*": _SHARE,
    "gate.min_agreement.*": _SHARE,
    "gate.min_agreement_seeded.*": _SHARE,
    "gate.max_perplexity_increase.*": _SHARE,
    "gate.max_drift_ratio.*": _RATE,
    "gate.max_expert_error.*": _RATE,
    "gate.max_gain_error.*": _RATE,
    "gate.worse_alpha.*": _PROBABILITY,
    "decode.min_repeats": _POSITIVE_COUNT,
    "decode.min_steps.*": _POSITIVE_COUNT,
    "decode.required.*": _NAMES,
    "serving.min_repeats": _POSITIVE_COUNT,
    "serving.token_tolerance": _SHARE,
    "serving.max_failure_share": _SHARE,
}

Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """A well-formed policy: its text, the hash of that text, and the values by path of keys."""

    text: str
    sha256: str
    source: str
    by_path: dict[Path_, Any]

    @property
    def min_rounds(self) -> int:
        """Fewest rounds that decide a cell."""
        return int(self.by_path["race", "min_rounds"])

    @property
    def min_sessions(self) -> int:
        """Fewest sessions (restarts of the workers) that decide a cell."""
        return int(self.by_path["race", "min_sessions"])

    def tolerance(self, precision: str) -> float:
        """Return the largest relative (Frobenius) error of an output of ``precision``.

        Raises:
            PolicyError: the policy has no tolerance for it.
        """
        try:
            return float(self.by_path["race", "tolerance", precision])
        except KeyError:
            known = sorted(path[2] for path in self.by_path if path[:2] == ("race", "tolerance"))
            raise PolicyError(
                f"{self.source}: 'race.tolerance' has no '{precision}'; add it, or race {', '.join(known)}."
            ) from None

    def required(self, device: str, precision: str) -> tuple[str, ...]:
        """Return the contestants that a race on ``device`` needs; those of 'default' where it is not named."""
        named = any(path[:3] == ("race", "required", device) for path in self.by_path)
        key = device if named else DEFAULT_DEVICE
        return tuple(self.by_path.get(("race", "required", key, precision), ()))


def load_policy(path: Path | None = None) -> Policy:
    """Read and check a policy; without ``path`` the one of this package.

    Raises:
        PolicyError: the file cannot be read, is no TOML, or a key is missing, unknown or wrong.
    """
    path = path or DEFAULT_PATH
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise PolicyError(f"{path}: the policy cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise PolicyError(
            f"{path}: the policy is not UTF-8 (byte {error.start}); save it as UTF-8."
        ) from None
    return parse_policy(text, path.name)


def parse_policy(text: str, source: str = "policy") -> Policy:
    """Check the text of a policy; ``source`` names it in errors.

    Raises:
        PolicyError: a sentence, on a line of its own, for everything that is wrong.
    """
    try:
        by_path = dict(_leaves(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{source}: not valid TOML ({error}); correct it.") from None
    problems = list(_problems(by_path))
    if problems:
        raise PolicyError("\n".join(f"{source}: {problem}" for problem in problems))
    return Policy(text, hashlib.sha256(text.encode()).hexdigest(), source, by_path)


def values(text: str) -> list[tuple[str, str]]:
    """Return every (dotted key, value) of a policy's text; a list is JSON, everything else its plain text.

    Lenient on purpose: policies of earlier versions stay readable.

    Raises:
        PolicyError: the text is no TOML.
    """
    return [(".".join(path), _plain(value)) for path, value in _lenient(text)]


def required_rivals(text: str) -> list[tuple[str, str, str]]:
    """Return every (device, precision, contestant) of ``race.required`` in a policy's text.

    Raises:
        PolicyError: the text is no TOML.
    """
    return [
        (path[2], path[3], str(name))
        for path, value in _lenient(text)
        if path[:2] == ("race", "required") and len(path) == len(("race", "required", "device", "precision"))
        for name in (value if isinstance(value, list) else [value])
    ]


def _lenient(text: str) -> list[tuple[Path_, Any]]:
    try:
        return list(_leaves(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not valid TOML ({error})") from None


def _leaves(node: dict[str, Any], above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _problems(by_path: dict[Path_, Any]) -> Iterator[str]:
    found: dict[str, int] = dict.fromkeys(_KEYS, 0)
    for path, value in by_path.items():
        pattern = next((p for p in _KEYS if _matches(p, path)), None)
        if pattern is None:
            yield f"'{'.'.join(path)}' is no key of a policy; remove it or correct its spelling."
            continue
        found[pattern] += 1
        fits, wanted = _KEYS[pattern]
        if not fits(value):
            yield f"'{'.'.join(path)}' is {value!r} and must be {wanted}."
    for pattern, count in found.items():
        if count == 0 and "datasheet." not in pattern:
            yield f"'{pattern}' is missing; add it."
    narrow, wide = by_path.get(("race", "confidence")), by_path.get(("race", "confidence_many"))
    if _is_number(narrow) and _is_number(wide) and wide < narrow:
        yield f"'race.confidence_many' is {wide} and must be at least 'race.confidence', {narrow}."
    if not any(path[:3] == ("race", "required", DEFAULT_DEVICE) for path in by_path):
        yield "'race.required.default' is missing; say who is required on a device that is not named."


def _matches(pattern: str, path: Path_) -> bool:
    parts = pattern.split(".")
    return len(parts) == len(path) and all(p in ("*", key) for p, key in zip(parts, path, strict=True))
