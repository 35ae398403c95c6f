"""Each rule holds over a good warehouse, and fails when just its own matter is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import gate
from checks.judge import Validate
from checks.model import Status
from checks.session import Session
from checks.suites import SUITES
from tests.checks.conftest import CELLS, ENTRANTS, Break, build_race
from tests.lakes import POLICY, Race, Refusal

CELL = CELLS[0]
FALSE, UNJUDGED = Status.FALSE, Status.UNJUDGED


def test_a_complete_race_holds(good: Path, validate: Validate, tmp_path: Path) -> None:
    with Session(good / "warehouse.db", [good / "lake"], None, tmp_path) as session:
        result = session.gate(("integrity", "race"))
    assert [(r.rule.id, r.findings) for r in result.results if r.status is not Status.HOLDS] == []
    assert all(r.rows > 0 for r in result.results)


def test_an_empty_lake_could_not_be_judged(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    db = build_race(tmp_path)
    with Session(db, [tmp_path / "lake"], None, tmp_path) as session:
        result = session.gate(())
    assert result.exit_code == gate.EXIT_CODES[UNJUDGED]
    assert "there is no cell to judge" in str([r.findings for r in result.errors])


BROKEN = [
    (
        "integrity.files-readable",
        UNJUDGED,
        "UPDATE lake_files SET status = 'damaged', reason = 'no footer' WHERE table_name = 'samples'",
        "is damaged: no footer",
    ),
    (
        "integrity.warehouse-current",
        UNJUDGED,
        "UPDATE build_info SET value = 'other' WHERE key = 'lake_fingerprint'",
        "it changed since); run `warehouse build`",
    ),
    ("integrity.runs-registered", FALSE, "DELETE FROM runs WHERE event = 'started'", "has 0 start events"),
    (
        "integrity.samples-have-cell",
        FALSE,
        f"DELETE FROM cells WHERE cell_id = '{CELL}'",
        f"{CELL} has 0 rows",
    ),
    (
        "integrity.samples-have-roster",
        FALSE,
        "DELETE FROM rosters WHERE contestant = 'vllm'",
        "vllm (bf16) is not in",
    ),
    (
        "integrity.samples-have-roster",
        FALSE,
        "UPDATE rosters SET entered = FALSE WHERE contestant = 'vllm'",
        "vllm (bf16) is not entered",
    ),
    (
        "integrity.samples-have-worker",
        FALSE,
        "DELETE FROM workers WHERE contestant = 'vllm' AND session = 3",
        "vllm has samples in session 3 and 0 workers",
    ),
    (
        "integrity.times-positive",
        FALSE,
        f"UPDATE round_medians SET invalid_samples = 2 WHERE cell_id = '{CELL}' AND contestant = 'vllm' AND round = 1",
        "2 of 60 times are not positive",
    ),
    (
        "integrity.same-inputs",
        FALSE,
        f"UPDATE verdicts SET inputs_sha256 = 'other' WHERE cell_id = '{CELL}' AND contestant = 'vllm'",
        "vllm received inputs other",
    ),
    (
        "integrity.same-inputs",
        UNJUDGED,
        f"UPDATE verdicts SET inputs_sha256 = NULL WHERE cell_id = '{CELL}' AND contestant = 'vllm'",
        "vllm received inputs unknown",
    ),
    (
        "integrity.policy-registered-first",
        FALSE,
        "UPDATE policies SET registered_at = '2027-01-01'",
        "measured from 2026",
    ),
    ("integrity.policy-registered-first", UNJUDGED, "DELETE FROM policies", "[seconds_before is unknown]"),
    (
        "integrity.roster-registered-first",
        FALSE,
        "UPDATE rosters SET recorded_at = '2027-01-01' WHERE contestant = 'vllm'",
        "vllm (bf16) entered the roster at 2027-01-01",
    ),
    (
        "integrity.roster-registered-first",
        UNJUDGED,
        "UPDATE rosters SET recorded_at = NULL WHERE contestant = 'vllm'",
        "[seconds_before is unknown]",
    ),
    (
        "integrity.policy-unchanged",
        FALSE,
        "UPDATE policies SET policy_toml = replace(policy_toml, 'tie_band = 0.01', 'tie_band = 0.0')",
        "race.tie_band was 0.0, is 0.01",
    ),
    ("integrity.policy-unchanged", UNJUDGED, "DELETE FROM policies", "[changed is unknown]"),
    (
        "integrity.identities-unique",
        FALSE,
        "UPDATE lake_files SET status = 'conflict', reason = 'run 1 has two seeds' WHERE table_name = 'runs'",
        "contradicts another file: run 1 has two seeds",
    ),
    ("integrity.runs-ended", FALSE, "UPDATE run_status SET last_event = 'started'", "ended with 'started'"),
    ("integrity.sources-clean", FALSE, "UPDATE run_status SET source_dirty = TRUE", "modified sources"),
    (
        "race.cells-complete",
        FALSE,
        f"UPDATE winners SET outcome = 'incomplete', missing = 'vllm (not-installed)' WHERE cell_id = '{CELL}'",
        f"{CELL} graph is incomplete: missing vllm (not-installed)",
    ),
    ("race.noise-decides-nothing", UNJUDGED, "DELETE FROM noise_floors", "[noise_floor is unknown]"),
    ("race.quiet", FALSE, "UPDATE noise_floors SET noise_floor = 0.2", "nothing is decided in this mode"),
    (
        "race.noise-decides-nothing",
        FALSE,
        "UPDATE noise_floors SET noise_floor = 0.2",
        "noise floor 0.2, bound 0.05",
    ),
    (
        "race.above-floor",
        FALSE,
        "UPDATE contestant_status SET datasheet_floor_us = 200, reason_code = 'below-floor' WHERE contestant = 'vllm'",
        "the datasheet's floor is 200 us",
    ),
    (
        "race.compared-are-correct",
        FALSE,
        "UPDATE contestant_status SET relative_error = 0.5 WHERE contestant = 'vllm'",
        "vllm has relative error 0.5, the tolerance is 0.01",
    ),
    (
        "race.compared-are-correct",
        UNJUDGED,
        "UPDATE contestant_status SET relative_error = NULL WHERE contestant = 'vllm'",
        "[relative_error is unknown]",
    ),
    (
        "race.repeatability-known",
        FALSE,
        "UPDATE contestant_status SET repeatability = 'bitwise | no' WHERE contestant = 'vllm'",
        "repeatability of vllm is no",
    ),
    ("race.enough-rounds", FALSE, "UPDATE winners SET rounds = 11", "11 of 12 rounds"),
    ("race.enough-rounds", FALSE, "UPDATE winners SET sessions = 3", "3 of 4 sessions"),
    ("race.wins-are-wins", FALSE, "UPDATE winners SET margin_lo = 1.001", "win of dispatch over vllm"),
    ("race.wins-are-wins", FALSE, "UPDATE winners SET outcome = 'tie'", "tie of dispatch"),
    (
        "race.refused",
        FALSE,
        "UPDATE contestant_status SET status = 'refused', fault = 'contestant', reason_code = 'nan-output' "
        "WHERE contestant = 'vllm'",
        "vllm (required) is refused, nan-output",
    ),
    (
        "race.not-throttled",
        FALSE,
        "INSERT INTO device_states (schema_version, run_id, cell_id, timing_mode, round, throttle_reasons) "
        f"SELECT 1, run_id, '{CELL}', 'graph', r, CASE WHEN r < 2 THEN 'sw-power-cap' ELSE '' END "
        "FROM (SELECT DISTINCT run_id FROM runs), range(12) t(r)",
        "2 of 12 rounds were throttled (sw-power-cap)",
    ),
    (
        "race.reference-floor",
        FALSE,
        "UPDATE contestant_status SET below_reference_floor = TRUE",
        "the measured floor is",
    ),
    ("race.measured-once", FALSE, "UPDATE winners SET runs = 2", "was raced 2 times"),
]


@pytest.mark.parametrize(
    ("rule_id", "status", "sql", "words"), BROKEN, ids=[f"{b[0]}-{b[1].name}" for b in BROKEN]
)
def test_a_broken_matter_is_found(
    broken_rule: Break, rule_id: str, status: Status, sql: str, words: str
) -> None:
    result = broken_rule(rule_id, sql)
    assert result.status is status
    assert words in "\n".join(f.line for f in result.findings)


def test_every_rule_of_integrity_and_race_has_a_way_to_fail() -> None:
    covered = {b[0] for b in BROKEN} | {"integrity.report-current"}  # tests/checks/test_cli.py
    assert {r.id for s in ("integrity", "race") for r in SUITES[s].rules} == covered


def test_a_view_that_is_gone_is_not_judged(broken_rule: Break) -> None:
    result = broken_rule("race.noise-decides-nothing", "DROP TABLE noise_floors CASCADE")
    assert result.status is UNJUDGED
    assert "the query broke" in result.findings[0].line


def test_a_comment_in_the_policy_is_no_drift(broken_rule: Break) -> None:
    result = broken_rule(
        "integrity.policy-unchanged",
        "UPDATE policies SET policy_toml = '# measured under this' || policy_toml",
    )
    assert result.status is Status.HOLDS


def test_a_rival_left_out_makes_the_gate_fail(validate: Validate, tmp_path: Path) -> None:
    missing = tuple(replace(e, entered=e.name != "sglang") for e in ENTRANTS)
    db = build_race(tmp_path, Race(entrants=missing, cells=CELLS[:1]))
    with Session(db, [tmp_path / "lake"], None, tmp_path) as session:
        result = session.gate(())
    assert result.exit_code == 1
    (complete,) = [r for r in result.errors if r.rule.id == "race.cells-complete"]
    assert "sglang" in complete.findings[0].line


def test_a_refusal_by_own_fault_is_a_warning(validate: Validate, tmp_path: Path) -> None:
    refusal = Refusal("sglang", "nan-output", "contestant")
    db = build_race(tmp_path, Race(entrants=ENTRANTS, cells=CELLS[:1], refusals=(refusal,)))
    with Session(db, [tmp_path / "lake"], None, tmp_path) as session:
        result = session.gate(())
    assert result.exit_code == 0
    assert [r.rule.id for r in result.warnings] == ["race.refused"]
    assert "sglang (required) is refused, nan-output" in result.warnings[0].findings[0].line


def test_an_older_policy_is_named_key_by_key(validate: Validate, tmp_path: Path) -> None:
    old = POLICY.replace("min_rounds = 12", "min_rounds = 6")
    db = build_race(tmp_path, Race(entrants=ENTRANTS, cells=CELLS[:1], policy=old))
    with Session(db, [tmp_path / "lake"], None, tmp_path) as session:
        result = session.gate(("integrity",))
    (drift,) = result.errors
    assert "race.min_rounds was 6, is 12" in drift.findings[0].line
