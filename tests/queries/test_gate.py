"""The gate's views over synthetic rows: pairs, verdicts, which run speaks."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.evidence import POSITIONS, write_gate
from tests.lakes import POLICY
from tests.queries.conftest import Database, MakeDatabase
from warehouse.append import append


def edited(lake: Path, table: str, change) -> None:
    """Rewrite the rows of a table as ``change`` says: row in, row (or None) out."""
    for path in (lake / table).iterdir():
        rows = [change(row) for row in pq.read_table(path).to_pylist()]
        path.unlink()
        append(lake, table, [{k: v for k, v in row.items() if k != "schema_version"} for row in rows if row])


def test_a_probability_is_never_below_zero(make_db: MakeDatabase) -> None:
    """The sum over 758 coins ended at -1e-12, and printed as -0.0."""
    db = make_db(then=lambda lake: write_gate(lake, disagreements={"auto_bf16": 900}))
    row = db.row("SELECT * FROM gate_paired WHERE config = 'auto_bf16'")
    assert row["stock_only_right"] == 898
    assert 0 <= row["p_worse"] < 1e-9
    assert 0 <= row["p_different"] < 1e-9


def test_pairs_are_mcnemars_and_exact(make_db: MakeDatabase) -> None:
    """Stock is right but at positions 0 and 1: there float32 decides -1, and so does a candidate that differs."""

    db: Database = make_db(
        then=lambda lake: write_gate(lake, disagreements={"auto_bf16": 9, "naive_bf16": 1})
    )
    row = db.row("SELECT * FROM gate_paired WHERE config = 'auto_bf16'")
    # -1 at nine positions: right at the two where stock is wrong, wrong at the seven others.
    assert [
        row[c] for c in ("pairs", "both_right", "stock_only_right", "candidate_only_right", "both_wrong")
    ] == [
        POSITIONS,
        POSITIONS - 9,
        7,
        2,
        0,
    ]
    assert row["p_worse"] == pytest.approx(sum(comb(9, k) for k in range(7, 10)) / 2**9, rel=1e-9)
    assert row["p_different"] == pytest.approx(2 * sum(comb(9, k) for k in range(7, 10)) / 2**9, rel=1e-9)
    d = 5 / POSITIONS
    wald = d + 1.959964 * ((9 / POSITIONS - d**2) / POSITIONS) ** 0.5
    assert row["excess_wrong_hi"] == pytest.approx(wald, rel=1e-9)
    better = db.row("SELECT * FROM gate_paired WHERE config = 'naive_bf16'")
    assert (better["stock_only_right"], better["candidate_only_right"]) == (0, 1)
    assert (better["p_worse"], better["p_different"]) == (1.0, 1.0)
    assert db.rows("SELECT config FROM gate_paired WHERE config LIKE 'stock%'") == []


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("gate_positions", {"kernel_calls": 0}, "its kernel ran in no call of some layer"),
        ("gate_positions", {"candidate_nll": 2.02}, "perplexity up by 0.0202, over 0.01"),
        ("gate_positions", {"layer_drift": [0.012, 0.05, 0.036]}, "drift 2.50 times stock's, over 1.5"),
        ("gate_experts", {"gain": 0.98}, "an expert alone has a gain off by 0.0200, over 0.005"),
        ("gate_experts", {"relative_error": 0.02}, "an expert alone is off by 0.0200, over 0.01"),
    ],
)
def test_each_criterion_fails_by_itself(make_db: MakeDatabase, table: str, change: dict, reason: str) -> None:
    def then(lake: Path) -> None:
        write_gate(lake)
        edited(lake, table, lambda row: {**row, **change} if row["config"] == "auto_bf16" else row)

    db = make_db(then=then)
    found = {r["config"]: (r["verdict"], r["reason"]) for r in db.rows("SELECT * FROM gate_results")}
    assert found.pop("auto_bf16") == ("failed", reason)
    assert found.pop("stock_bf16_vs_float32") == ("yardstick", None)
    assert set(found.values()) == {("passed", None)}


def test_a_position_at_which_stock_decided_twice_differently_has_no_pair(make_db: MakeDatabase) -> None:
    def then(lake: Path) -> None:
        write_gate(lake)
        change = {"config": "stock_bf16_vs_float32", "position": 700}

        def other(row):
            return {**row, "candidate_top1": 7} if change.items() <= row.items() else row

        edited(lake, "gate_positions", other)

    found = make_db(then=then).row("SELECT verdict, reason FROM gate_results WHERE config = 'auto_bf16'")
    assert found == {"verdict": "failed", "reason": "only 1035 of 1036 positions have a pair"}


def test_decisions_are_counted_against_the_policy_of_the_precision(make_db: MakeDatabase) -> None:
    many = {"auto_bf16": 104, "auto_int8_w8a8": 104, "auto_int8_w8a16": 1}

    def then(lake: Path) -> None:
        write_gate(lake, disagreements=many)
        # Three gaps over one logit in w8a8 (0.0029 of the positions), and one in w8a16, which allows none.
        edited(
            lake,
            "gate_positions",
            lambda row: (
                {**row, "reference_gap_logits": 1.01}
                if row["config"].startswith("auto_int8") and not row["agree"] and row["position"] < 3
                else row
            ),
        )
        edited(lake, "gate_configs", lambda row: {**row, "weights": "trained"})

    db = make_db(then=then)
    found = {r["config"]: r for r in db.rows("SELECT * FROM gate_results")}
    assert found["auto_bf16"]["reason"].startswith("agreement 0.8996 under 0.95")
    assert found["auto_int8_w8a8"]["reason"] == "agreement 0.8996 under 0.9; 3 gaps over 1.0 logits"
    assert found["auto_int8_w8a16"]["reason"] == "1 gaps over 1.0 logits"
    assert found["auto_int8_w8a16"]["large_gap_share"] == pytest.approx(1 / POSITIONS)
    assert found["auto_int8_w8a8"]["widest_gap_logits"] == 1.01


def test_what_is_missing_or_unknown_never_passes(make_db: MakeDatabase) -> None:
    def then(lake: Path) -> None:
        write_gate(lake)

        def change(row):
            if row["config"] == "naive_bf16" and row["position"] == 5:
                return None  # a file that was cut short would do this
            if row["config"] == "stock_bf16_vs_float32":
                return None
            return row

        edited(lake, "gate_positions", change)
        edited(lake, "gate_configs", lambda row: None if row["config"] == "stock_bf16_vs_float32" else row)

    db = make_db(then=then)
    found = {r["config"]: (r["verdict"], r["reason"]) for r in db.rows("SELECT * FROM gate_results")}
    assert found["naive_bf16"] == ("missing", "not measured")
    assert found["stock_bf16_vs_float32"] == ("missing", "not measured")
    assert found["auto_bf16"] == ("unjudged", "unknown drift; unknown pairs")
    assert db.row("SELECT complete, speaks FROM gate_runs") == {"complete": False, "speaks": True}


def test_the_latest_complete_run_of_a_model_in_a_context_on_a_device_speaks(make_db: MakeDatabase) -> None:
    def then(lake: Path) -> None:
        write_gate(lake, number=1, disagreements={"auto_bf16": 300})
        write_gate(lake, number=2)
        write_gate(lake, number=3, device="Other GPU")
        write_gate(lake, number=4, model="larger")
        write_gate(lake, number=5)
        last = "20260101T000500Z-00000005"
        for table in ("gate_positions", "gate_configs"):
            edited(
                lake,
                table,
                lambda row: None if (row["run_id"], row["config"]) == (last, "naive_bf16") else row,
            )

        write_gate(lake, number=6, model="larger")
        edited(
            lake,
            "gate_configs",
            lambda row: {**row, "context_tokens": 16} if row["run_id"].endswith("6") else row,
        )

    db = make_db(then=then)
    found = db.rows(
        "SELECT right(run_id, 1) AS run, complete, speaks, runs, not_passed_configs FROM gate_runs"
    )
    by_run = {row.pop("run"): row for row in found}
    assert by_run["1"]["speaks"] is False
    assert by_run["1"]["not_passed_configs"] == "auto_bf16 failed"
    assert by_run["5"] == {
        "complete": False,
        "speaks": False,
        "runs": 3,
        "not_passed_configs": "naive_bf16 missing",
    }
    assert {run for run, row in by_run.items() if row["speaks"]} == {"2", "3", "4", "6"}


def test_thresholds_are_those_that_the_run_registered(make_db: MakeDatabase) -> None:
    db = make_db(then=write_gate)
    found = db.rows("SELECT * EXCLUDE (policy_sha256) FROM gate_thresholds ORDER BY precision")
    assert [row["precision"] for row in found] == ["bf16", "int8_w8a16", "int8_w8a8"]
    assert [row["worse_alpha"] for row in found] == [0.01, None, None]
    assert [row["max_large_gap_share"] for row in found] == [0.0, 0.0, 0.002]
    assert {row["min_positions"] for row in found} == {1036}
    assert "min_positions = 1036" in POLICY
