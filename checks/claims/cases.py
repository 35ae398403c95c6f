"""Claims over a frame, from a JSON or TOML file: bounds on a column, or the number that a text prints.

::

    {"data": {"speedup": [{"cell": "A", "speedup_vs_vllm": 1.345}, ...]},
     "claims": [{"id": "c1", "text": "at least 1.0x", "check": "min", "column": "speedup_vs_vllm", "min": 1.0}]}

A claim without a bound is refused when the file is read. Rows that are NULL, no rows, and unknown columns leave a
claim unjudged; they never pass it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb
import polars as pl

from checks.claims.model import Verdict
from checks.claims.printed import Printed, decimal_of, numbers
from checks.errors import ChecksError

_CHECKS = ("min", "max", "between", "equals_printed", "mean")


class ClaimsFileError(ChecksError):
    """The file cannot be read, or is no list of claims."""


@dataclass(frozen=True)
class FileClaim:
    """What one claim of a file came to; ``notes`` are rows that could not be judged beside those that could."""

    id: str
    text: str
    verdict: Verdict
    reason: str
    notes: str = ""


def judge_file(path: Path) -> list[FileClaim]:
    """Judge the claims of a JSON or TOML file over the data in it.

    Raises:
        ClaimsFileError: the file cannot be read, or holds no claims: nothing to judge is no pass.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise ClaimsFileError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("data"), dict):
        raise ClaimsFileError(f"{path} needs 'data', a table of rows by name, and 'claims', a list")
    return judge_claims(content.get("claims", []), content["data"])


def judge_claims(
    claims: Sequence[Mapping[str, Any]], data: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[FileClaim]:
    """Judge ``claims`` over ``data``, rows by table name; a claim names its table where there are several.

    Raises:
        ClaimsFileError: there are no claims.
    """
    if not claims:
        raise ClaimsFileError("the file holds no claims; nothing was judged")
    return [_judge(claim, data) for claim in claims]


def _judge(claim: Mapping[str, Any], data: Mapping[str, Sequence[Mapping[str, Any]]]) -> FileClaim:
    ident, text = str(claim.get("id", "")), str(claim.get("text", ""))

    def outcome(verdict: Verdict, reason: str, notes: str = "") -> FileClaim:
        return FileClaim(ident, text, verdict, reason, notes)

    if why := _malformed(claim):
        return outcome(Verdict.REJECTED, why)
    try:
        values = _values(claim, data)
    except (duckdb.Error, KeyError) as error:
        return outcome(Verdict.UNJUDGED, " ".join(str(error).split("\n\n")[0].split()))
    if not values:
        return outcome(Verdict.UNJUDGED, f"no row is selected by {claim.get('where', 'the claim')}")
    known = [v for v in map(decimal_of, values) if v is not None]
    unknown = len(values) - len(known)
    notes = f"{unknown} of {len(values)} rows have no value" if unknown else ""
    if not known:
        return outcome(Verdict.UNJUDGED, notes)
    false = _false(claim, known)
    if false:
        return outcome(Verdict.FALSE, false, notes)
    return (
        outcome(Verdict.UNJUDGED, notes)
        if unknown
        else outcome(Verdict.HOLDS, f"{len(known)} rows were compared")
    )


def _malformed(claim: Mapping[str, Any]) -> str | None:  # noqa: PLR0911
    """Return why a claim cannot be judged at all, whatever the data."""
    check, column = claim.get("check"), claim.get("column")
    bounds = [claim[b] for b in ("min", "max") if claim.get(b) is not None]
    if check not in _CHECKS:
        return f"'{check}' is no check; there are {', '.join(_CHECKS)}"
    if not isinstance(column, str) or not column:
        return "the claim names no column"
    if "mostly" in claim:
        return "'mostly' is refused: a share of rows is no claim, count them instead"
    if check == "equals_printed":
        return None if _printed(claim) is not None else "'printed' has to be a number as it is printed"
    if check in {"min", "max"} and claim.get(check) is None:
        return f"the claim has no bound '{check}'"
    if not bounds:
        return "the claim has no bound; anything would pass it"
    if any(decimal_of(b) is None for b in bounds):
        return "a bound has to be a finite number"
    return None


def _values(claim: Mapping[str, Any], data: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Any]:
    """The column's values in the rows that the claim selects."""
    table = claim.get("table") or (next(iter(data)) if len(data) == 1 else None)
    if table not in data:
        raise KeyError(f"the claim has to name one of the tables {', '.join(data)}")
    column = '"' + str(claim["column"]).replace('"', '""') + '"'
    with duckdb.connect(":memory:") as con:
        con.register(
            "rows_of_table", pl.DataFrame(list(data[str(table)]), infer_schema_length=None).to_arrow()
        )
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        where = f" WHERE {claim['where']}" if claim.get("where") else ""
        statement = f"SELECT {column} FROM rows_of_table{where}"
        if len(con.extract_statements(statement)) != 1:
            raise KeyError("'where' has to be one condition")
        return [row[0] for row in con.execute(statement).fetchall()]


def _printed(claim: Mapping[str, Any]) -> Printed | None:
    found = numbers(str(claim.get("printed", "")))
    return found[0] if len(found) == 1 else None


def _false(claim: Mapping[str, Any], values: Sequence[Decimal]) -> str | None:
    """Return the value that contradicts the claim."""
    if claim["check"] == "equals_printed":
        printed = _printed(claim)
        wrong = [v for v in values if printed is None or not printed.stands_for(v)]
        return f"{wrong[0]} does not print as {claim['printed']}" if wrong else None
    if claim["check"] == "mean":
        values = [Decimal(repr(fmean(values)))]
    low, high = decimal_of(claim.get("min")), decimal_of(claim.get("max"))
    if claim["check"] == "min":
        high = None
    if claim["check"] == "max":
        low = None
    for value in values:
        if low is not None and value < low:
            return f"{value} is under {low}"
        if high is not None and value > high:
            return f"{value} is over {high}"
    return None
