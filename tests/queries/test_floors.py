"""Floors from the drawn ids and measured rates, times over them, and means over complete sets only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lakes import Entrant, Race, control, run_id, trio, write_ceilings
from tests.queries.conftest import Database, MakeDatabase

H200 = "NVIDIA H200"
SHAPE = "deepseek-moe-16b"
# One microsecond of reading at 4e12 bytes/s is 4e6 bytes; the product takes 0.5 us at 700e12 operations/s.
FACTS = {"weight_bytes": 395_000_000, "io_bytes": 5_000_000, "flops": 350_000_000}
HEAVY = {"weight_bytes": 4_000_000, "io_bytes": 0, "flops": 70_000_000_000}


def h200(dispatch: float, others: float) -> tuple[Entrant, ...]:
    return (
        Entrant("dispatch", "dispatch", dispatch),
        *(Entrant(n, n, others) for n in ("vllm", "sglang", "torch-grouped")),
        control(time_us=dispatch),
    )


def ceilings(**arguments: Any) -> Callable[[Path], object]:
    return lambda lake: write_ceilings(lake, device=H200, **arguments)


@pytest.fixture(scope="module")
def db(make_db: MakeDatabase) -> Database:
    race = Race(
        device=H200,
        entrants=h200(120.0, 150.0),
        cells=(f"{SHAPE}/bf16/uniform/16", f"{SHAPE}/int8_w8a8/zipf/16", f"{SHAPE}/int8_w8a16/uniform/16"),
        cell_facts=FACTS,
        run_id=run_id(1),
    )
    heavy = replace(
        race,
        cells=tuple(f"{SHAPE}/{p}/uniform/2048" for p in ("bf16", "int8_w8a16", "int8_w8a8")),
        cell_facts=HEAVY,
        run_id=run_id(2),
    )

    def both(lake: Path) -> None:
        write_ceilings(lake, run=run_id(0), device=H200, read_bytes_per_s=4.4e12)
        write_ceilings(lake, run=run_id(3), device=H200)
        write_ceilings(lake, run=run_id(4), device="Other GPU", read_bytes_per_s=1e12)

    return make_db(race, heavy, then=both)


def test_floor_of_a_memory_bound_cell(db: Database) -> None:
    row = db.row("FROM floors WHERE cell_id = ?", f"{SHAPE}/bf16/uniform/16")
    assert row["memory_floor_us"] == pytest.approx(100.0)
    assert row["matrix_floor_us"] == pytest.approx(0.5)
    assert row["reference_floor_us"] == pytest.approx(100.0)
    assert row["limiting_resource"] == "memory"
    assert row["datasheet_floor_us"] == pytest.approx(4e8 / 4.8e12 * 1e6)


def test_int8_activations_take_twice_the_bf16_rate_and_nothing_else_does(db: Database) -> None:
    floors = {
        row["precision"]: row["reference_floor_us"]
        for row in db.rows("FROM floors WHERE cell_id LIKE '%/2048'")
    }
    assert floors == pytest.approx({"bf16": 100.0, "int8_w8a16": 100.0, "int8_w8a8": 50.0})
    limits = db.rows("SELECT DISTINCT limiting_resource FROM floors WHERE cell_id LIKE '%/2048'")
    assert limits == [{"limiting_resource": "matrix"}]


def test_the_newest_ceilings_of_the_device_speak(db: Database) -> None:
    assert db.rows("SELECT DISTINCT stream_bytes_per_s FROM floors") == [{"stream_bytes_per_s": 4.0e12}]


def test_ceilings_of_the_same_run_come_first(make_db: MakeDatabase) -> None:
    race = Race(device=H200, entrants=h200(120.0, 150.0), cell_facts=FACTS, run_id=run_id(1))

    def both(lake: Path) -> None:
        write_ceilings(lake, run=run_id(1), device=H200, read_bytes_per_s=4.2e12)
        write_ceilings(lake, run=run_id(3), device=H200, read_bytes_per_s=4.0e12)

    assert make_db(race, then=both).row("FROM floors")["stream_bytes_per_s"] == 4.2e12


def test_time_over_floor_with_the_goal_beside_it(db: Database) -> None:
    row = db.row("FROM roofline WHERE cell_id = ? AND contestant = 'dispatch'", f"{SHAPE}/bf16/uniform/16")
    assert row["x_floor"] == pytest.approx(1.2, rel=0.01)
    assert row["goal_x_floor"] == 1.05
    assert row["achieved_bytes_per_s"] == pytest.approx(4e8 / row["time_us"] * 1e6)
    zipf = db.row("FROM roofline WHERE cell_id LIKE '%/zipf/16' AND contestant = 'dispatch'")
    assert zipf["goal_x_floor"] == 1.12


def test_every_goal_is_there(db: Database) -> None:
    rows = db.rows("SELECT precision, count(*) AS n, sum(goal_x_floor) AS total FROM goals GROUP BY ALL")
    assert {row["precision"]: (row["n"], round(row["total"], 2)) for row in rows} == {
        "bf16": (7, 7.95),
        "int8_w8a16": (7, 9.04),
        "int8_w8a8": (7, 9.09),
    }


def test_no_ceilings_no_floor(make_db: MakeDatabase) -> None:
    row = make_db(Race(device=H200, entrants=h200(120.0, 150.0), cell_facts=FACTS)).row(
        "FROM roofline WHERE contestant = 'dispatch'"
    )
    assert (row["reference_floor_us"], row["x_floor"], row["below_reference_floor"]) == (None, None, False)


def test_a_time_under_the_reference_floor_is_flagged(make_db: MakeDatabase) -> None:
    race = Race(device=H200, entrants=h200(90.0, 150.0), cell_facts=FACTS)
    db = make_db(race, then=ceilings(run=run_id(9)))
    row = db.row("FROM contestant_status WHERE contestant = 'dispatch'")
    assert (row["status"], row["below_reference_floor"]) == ("measured", True)


def test_a_time_under_the_datasheet_floor_is_refused_and_cannot_win(make_db: MakeDatabase) -> None:
    race = Race(device=H200, entrants=h200(60.0, 150.0), cell_facts=FACTS)
    db = make_db(race)
    row = db.row("FROM contestant_status WHERE contestant = 'dispatch'")
    assert (row["status"], row["reason_code"], row["fault"]) == ("refused", "below-floor", "contestant")
    assert db.row("FROM winners")["winner"] is None
    assert {r["contestant"] for r in db.rows("FROM refusals")} == {"dispatch", "dispatch-control"}


def test_geometric_mean_over_a_complete_set(make_db: MakeDatabase) -> None:
    cells = tuple(f"{SHAPE}/bf16/uniform/{m}" for m in (1, 4))
    db = make_db(Race(entrants=trio(dispatch=90.0), cells=cells))
    row = db.row("FROM geomean_speedup WHERE contestant = 'dispatch' AND rival = 'vllm'")
    ratios = db.rows("FROM ratios WHERE contestant = 'dispatch' AND rival = 'vllm'")
    expected = math.sqrt(math.prod(r["speedup_vs_rival"] for r in ratios))
    assert row["geomean_speedup"] == pytest.approx(expected, rel=1e-12)
    best = db.row("FROM geomean_speedup WHERE contestant = 'dispatch' AND rival = '(best other house)'")
    margins = db.rows("SELECT margin FROM winners")
    assert best["geomean_speedup"] == pytest.approx(math.sqrt(math.prod(m["margin"] for m in margins)))


def test_no_mean_over_an_incomplete_set(make_db: MakeDatabase) -> None:
    cells = tuple(f"{SHAPE}/bf16/uniform/{m}" for m in (1, 4))
    db = make_db(Race(entrants=trio(dispatch=90.0), cells=cells, missing=frozenset({("sglang", cells[0])})))
    row = db.row("FROM geomean_speedup WHERE contestant = 'dispatch' AND rival = 'vllm'")
    assert (row["geomean_speedup"], row["reason"]) == (None, "1 of 2 cells are incomplete")
