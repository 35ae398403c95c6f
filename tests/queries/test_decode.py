"""Decode inside a model: rates over repeats, the ratio to stock, and what stands where nothing was timed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import start, write_decode
from tests.lakes import EPOCH, run_id, write_ceilings
from tests.queries.conftest import Database, MakeDatabase
from warehouse.append import append

RATES = {"stock_eager_bf16": 100.0, "dispatch_bf16": 200.0, "fused_graph_bf16": 500.0}
REFUSED, LATE = "dispatch_graph_bf16", "dispatch_int8_w8a8"


def steps(run: str, config: str, repeat: int, times: list[float], **changed: Any) -> list[dict[str, Any]]:
    common = {"run_id": run, "config": config, "repeat": repeat, "model": "other", "weight_bytes": 4_000_000}
    return [{**common, "step": i, "time_us": time, **changed} for i, time in enumerate(times)]


def refusal(run: str, config: str, stage: str, fault: str) -> dict[str, Any]:
    return {
        "run_id": run,
        "config": config,
        "stage": stage,
        "recorded_at": EPOCH + timedelta(hours=2),
        "status": "refused",
        "reason_code": "wrong-output",
        "fault": fault,
        "detail": "as the test asked",
        "model": "tiny",
    }


def passed(run: str, config: str) -> dict[str, Any]:
    common = {"run_id": run, "config": config, "stage": "check", "recorded_at": EPOCH, "status": "passed"}
    return {**common, "model": "other"}


@pytest.fixture(scope="module")
def db(make_db: MakeDatabase) -> Database:
    def then(lake: Path) -> None:
        run = write_decode(lake, {**RATES, LATE: 150.0}, repeats=8, device="D")
        append(lake, "decode_configs", [refusal(run, REFUSED, "check", "contestant")])
        append(lake, "decode_configs", [refusal(run, LATE, "timing", "environment")])
        write_ceilings(lake, run=run_id(3), device="D")
        other = run_id(201)
        start(lake, other, "decode", "E")
        uneven = steps(other, "stock_eager_bf16", 0, [1000.0, 3000.0])
        alone = steps(other, "dispatch_bf16", 1, [500.0, 500.0]) + steps(other, "unheard_of", 0, [1.0])
        append(lake, "decode_steps", uneven + alone)
        for name in ("stock_eager_bf16", "dispatch_bf16"):
            append(lake, "decode_configs", [passed(other, name)])

    return make_db(then=then)


def rates(db: Database, config: str, device: str = "D") -> dict[str, Any]:
    return db.row("SELECT * FROM decode_rates WHERE config = ? AND device = ?", config, device)


def test_a_rate_is_the_median_over_repeats_with_an_interval(db: Database) -> None:
    row = rates(db, "dispatch_bf16")
    # Repeat r is r % slower: 200 / 1.00 ... 200 / 1.07; eight repeats give [1st, 8th] at 99%.
    assert row["tokens_per_s"] == pytest.approx((200 / 1.03 + 200 / 1.04) / 2)
    assert (row["lo"], row["hi"]) == (pytest.approx(200 / 1.07), pytest.approx(200.0))
    assert row["status"] == "timed"


def test_the_ratio_is_to_stock_in_the_same_repeat(db: Database) -> None:
    row = rates(db, "fused_graph_bf16")
    # Both slow down together from repeat to repeat: the ratio does not move.
    found = (row["speedup_vs_stock"], row["speedup_lo"], row["speedup_hi"])
    assert found == pytest.approx((5.0, 5.0, 5.0))
    assert rates(db, "stock_eager_bf16")["speedup_vs_stock"] == 1.0
    # Another repeat than stock's has nothing to be compared with.
    assert rates(db, "dispatch_bf16", "E")["speedup_vs_stock"] is None


def test_a_rate_is_steps_over_their_whole_time(db: Database) -> None:
    # Two steps in 4 ms, whatever the median step took.
    assert rates(db, "stock_eager_bf16", "E")["tokens_per_s"] == pytest.approx(500.0)
    assert rates(db, "stock_eager_bf16", "E")["lo"] is None  # one repeat has no interval


def test_the_fraction_of_the_floor_needs_a_read_rate_of_that_device(db: Database) -> None:
    read = db.row("SELECT max(bytes_per_s) AS rate FROM ceilings WHERE ceiling = 'read'")["rate"]
    row = rates(db, "fused_graph_bf16")
    assert row["memory_floor_us"] == pytest.approx(1e6 * 1_000_000 / read)
    step_us = 1e6 / row["tokens_per_s"]
    assert row["fraction_of_memory_floor"] == pytest.approx(row["memory_floor_us"] / step_us)
    assert rates(db, "stock_eager_bf16", "E")["fraction_of_memory_floor"] is None


def test_what_was_refused_or_never_came_has_no_rate(db: Database) -> None:
    refused, late, missing = (rates(db, name) for name in (REFUSED, LATE, "grouped_mm_bf16"))
    assert (refused["status"], refused["refused_in"], refused["tokens_per_s"]) == ("refused", "check", None)
    assert (late["status"], late["refused_in"], late["repeats"]) == ("refused", "timing", 8)
    assert late["tokens_per_s"] is None  # its times stay in the lake and count for nothing
    assert (missing["status"], missing["required"], missing["tokens_per_s"]) == ("missing", True, None)
    unchecked = rates(db, "unheard_of", "E")
    assert (unchecked["status"], unchecked["tokens_per_s"]) == ("unchecked", None)


def test_a_run_is_complete_when_nothing_required_is_missing(make_db: MakeDatabase) -> None:
    required = {
        "stock_eager_bf16": 100.0,
        "grouped_mm_bf16": 120.0,
        "dispatch_bf16": 200.0,
        "dispatch_int8_w8a16": 210.0,
        "dispatch_int8_w8a8": 220.0,
    }
    fewer = {name: rate for name, rate in required.items() if name != "dispatch_int8_w8a8"}
    device = "cpu-interpreter"
    runs: dict[str, str] = {}

    def then(lake: Path) -> None:
        runs["whole"] = write_decode(lake, required, number=200, device=device)
        runs["missing"] = write_decode(lake, fewer, number=201, device=device)
        runs["short"] = write_decode(lake, required, number=202, device=device, steps=1)
        runs["few"] = write_decode(lake, required, number=203, device=device, repeats=2)
        for name, number, fault in (("own", 204, "contestant"), ("machine", 205, "environment")):
            runs[name] = write_decode(lake, fewer, number=number, device=device, model=name)
            append(lake, "decode_configs", [refusal(runs[name], "dispatch_int8_w8a8", "check", fault)])

    db = make_db(then=then)
    found = {row["run_id"]: (row["complete"], row["speaks"]) for row in db.rows("SELECT * FROM decode_runs")}
    assert {name: found[run] for name, run in runs.items()} == {
        "whole": (True, True),  # the later ones of its model are not complete
        "missing": (False, False),
        "short": (False, False),
        "few": (False, False),
        "own": (True, True),
        "machine": (False, True),
    }
