"""Claims files: bounds on a column, with what the shared case 13 asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks.claims.cases import ClaimsFileError, judge_claims, judge_file
from checks.claims.model import Verdict

ROWS: dict[str, list[dict[str, Any]]] = {
    "speedup": [{"cell": "A", "s": 1.345}, {"cell": "B", "s": None}, {"cell": "C", "s": 0.98}]
}


def test_the_shared_case(shared_cases: Path) -> None:
    found = {c.id: c for c in judge_file(shared_cases / "repro" / "13_claims.json")}
    assert {i: c.verdict for i, c in found.items()} == {
        "c1": Verdict.FALSE,
        "c2": Verdict.HOLDS,
        "c3": Verdict.UNJUDGED,
        "c4": Verdict.REJECTED,
        "c5": Verdict.UNJUDGED,
        "c6": Verdict.REJECTED,
    }
    assert found["c1"].reason == "0.98 is under 1.0"
    assert found["c1"].notes == "1 of 3 rows have no value"
    assert "no bound" in found["c4"].reason
    assert "speedup_vs_vlm" in found["c5"].reason


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"check": "min", "min": 1.3, "where": "cell = 'A'"}, Verdict.HOLDS),
        ({"check": "max", "max": 1.3, "where": "cell = 'A'"}, Verdict.FALSE),
        ({"check": "between", "min": 0.9, "max": 1.4, "where": "s IS NOT NULL"}, Verdict.HOLDS),
        ({"check": "between", "min": 0.9, "max": 1.4}, Verdict.UNJUDGED),  # one row is NULL
        ({"check": "mean", "min": 1.16, "max": 1.17, "where": "s IS NOT NULL"}, Verdict.HOLDS),
        ({"check": "mean", "min": 1.2, "where": "s IS NOT NULL"}, Verdict.FALSE),
        ({"check": "equals_printed", "printed": "1.34", "where": "cell = 'A'"}, Verdict.FALSE),
        ({"check": "equals_printed", "printed": "1.35x", "where": "cell = 'A'"}, Verdict.HOLDS),
        ({"check": "equals_printed", "printed": "about", "where": "cell = 'A'"}, Verdict.REJECTED),
        ({"check": "min", "max": 1.0}, Verdict.REJECTED),
        ({"check": "min", "min": float("nan")}, Verdict.REJECTED),
        ({"check": "median", "min": 1.0}, Verdict.REJECTED),
        ({"check": "min", "min": 1.0, "mostly": 0}, Verdict.REJECTED),
        ({"check": "min", "min": 0.5, "where": "1 = 1; DROP TABLE x"}, Verdict.UNJUDGED),
        ({"check": "min", "min": 0.5, "where": "cell = 'B'"}, Verdict.UNJUDGED),
    ],
)
def test_verdicts(claim: dict[str, Any], verdict: Verdict) -> None:
    (found,) = judge_claims([{"id": "c", "text": "t", "column": "s", **claim}], ROWS)
    assert found.verdict is verdict, found


def test_nothing_to_judge_is_no_pass(tmp_path: Path) -> None:
    with pytest.raises(ClaimsFileError, match="no claims"):
        judge_claims([], ROWS)
    path = tmp_path / "claims.toml"
    path.write_text("claims = []\n", encoding="utf-8")
    with pytest.raises(ClaimsFileError, match="needs 'data'"):
        judge_file(path)
    path.write_text("claims = [\n", encoding="utf-8")
    with pytest.raises(ClaimsFileError, match="cannot be read"):
        judge_file(path)


def test_a_toml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(
        '[[data.t]]\nx = 2.0\n[[claims]]\nid = "a"\ntext = "at least two"\ncheck = "min"\ncolumn = "x"\nmin = 2.0\n',
        encoding="utf-8",
    )
    assert [c.verdict for c in judge_file(path)] == [Verdict.HOLDS]
