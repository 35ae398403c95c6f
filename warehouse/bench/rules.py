"""What the computations of winners in data frames share: the rules' numbers, the files, the result."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from checks.policy import Policy, parse_policy
from warehouse.schema import TABLES

CELL = ("run_id", "cell_id", "timing_mode")
ENTRY = (*CELL, "contestant")
STAGES = ("plan", "start", "load", "prepare", "sample", "timed-output")  # in the order of a race
COMPARED = ("prepare", "timed-output")  # a pass in one of these means that an output was compared

# The columns of a result, and what identifies a row of it.
WHERE = ("device", "cell_id", "timing_mode")
FOUND = ("run_id", "runs", "outcome", "winner", "leader", "runner_up", "margin", "margin_lo", "margin_hi")

_ROUNDING = 1e-9  # relative; the mean of two middle values may be rounded differently


@dataclass(frozen=True)
class Rules:
    """The thresholds of the lake's one policy."""

    policy: Policy
    min_rounds: int
    min_sessions: int
    tie_band: float
    confidence: float
    noise_quantile: float


def read_rules(lake: Path) -> Rules:
    """Read the policy of ``lake``; the bench's lakes have one."""
    texts = {
        text for path in files(lake, "policies") for text in pq.read_table(path)["policy_toml"].to_pylist()
    }
    (text,) = texts
    policy = parse_policy(text)
    race = {path[1]: value for path, value in policy.by_path.items() if path[0] == "race"}
    return Rules(
        policy,
        policy.min_rounds,
        policy.min_sessions,
        float(race["tie_band"]),
        float(race["confidence"]),
        float(race["noise_quantile"]),
    )


def files(lake: Path, table: str) -> list[Path]:
    """Return the Parquet files of ``table``."""
    return sorted((lake / table).glob("*.parquet"))


def identity_of_sample() -> list[str]:
    """Return the columns that identify a sample."""
    return list(TABLES["samples"].identity)


@cache
def rank(rounds: int, confidence: float) -> int | None:
    """Return r so that [r-th, (n + 1 - r)-th] of n values covers their median with ``confidence``.

    The largest such r; None where n is too small. Exact: 1 - 2 P(Binomial(n, 1/2) < r) (David and Nagaraja,
    Order Statistics, 3rd ed., section 7.1).
    """
    best = None
    for r in range(1, rounds // 2 + 1):
        below = sum(math.comb(rounds, k) for k in range(r))
        if 1 - 2 * below / 2**rounds >= confidence:
            best = r
    return best


def modes_of(plan_json: str) -> list[str]:
    """Return the timing modes that a run planned."""
    return list(json.loads(plan_json)["mode"])


def disagreement(
    one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]], names: tuple[str, str]
) -> str | None:
    """Return the first difference between two results as a sentence, or None.

    Rows have the columns WHERE and FOUND. Ratios may differ by rounding; everything else must be equal.
    """
    keys = len(WHERE)
    left, right = ({tuple(row[:keys]): list(row[keys:]) for row in rows} for rows in (one, other))
    for key in sorted(left.keys() | right.keys()):
        if key not in left or key not in right:
            return f"{' '.join(key)} is missing in the winners of {names[0 if key not in left else 1]}"
        for column, a, b in zip(FOUND, left[key], right[key], strict=True):
            if not _equal(a, b):
                return f"{' '.join(key)}: {column} is {a} in {names[0]} and {b} in {names[1]}"
    return None


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_ROUNDING)
    return bool(a == b)
