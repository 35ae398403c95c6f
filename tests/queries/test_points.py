"""Figures that were not measured here can be compared, and can never become a win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lakes import Race, trio
from tests.queries.conftest import Database, MakeDatabase
from tests.queries.published import Rows, founding_cell, latency_table, point, unit_table, write_points

SHARED = Path(__file__).parents[3] / "shared"
PUBLISHED_CELL = {"dispatch": 1628.0, "sglang": 2111.0, "vllm": 1232.0}  # int8, 128 tokens, microseconds


def database(make_db: MakeDatabase, rows: Rows, *races: Race) -> Database:
    return make_db(*races, then=lambda lake: write_points(lake, rows))


def published_rows() -> Rows:
    return [
        point(name, value, row=i, evidence="published", cell_key='{"precision": "int8", "tokens": 128}')
        for i, (name, value) in enumerate(PUBLISHED_CELL.items())
    ]


@pytest.fixture(scope="module")
def founding(make_db: MakeDatabase) -> Database:
    """Return the published cell beside a race that vllm wins."""
    return database(make_db, published_rows(), Race(entrants=trio(dispatch=100.0, vllm=80.0)))


def test_the_published_cell_contradicts_that_dispatch_wins(founding: Database) -> None:
    row = founding.row("FROM points_cells")
    assert (row["outcome"], row["faster"]) == ("faster (point figures)", "vllm")
    assert row["outcome_text"] == "vllm faster over dispatch, sglang (point figures)"
    assert row["speedup_vs_next"] == pytest.approx(1628 / 1232)


def test_the_published_cell_supports_that_dispatch_is_faster_than_sglang(founding: Database) -> None:
    row = founding.row("FROM points_pairs WHERE contestant = 'dispatch' AND rival = 'sglang'")
    assert (row["outcome"], row["faster"]) == ("faster (point figures)", "dispatch")
    assert row["speedup_vs_rival"] == pytest.approx(2111 / 1628)
    against_vllm = founding.row("FROM points_pairs WHERE contestant = 'dispatch' AND rival = 'vllm'")
    assert (against_vllm["outcome"], against_vllm["faster"]) == ("faster (point figures)", "vllm")
    assert against_vllm["speedup_vs_rival"] == pytest.approx(1232 / 1628)


def test_published_figures_never_enter_winners(founding: Database) -> None:
    assert founding.rows("SELECT winner, run_id FROM winners WHERE precision LIKE 'int8%'") == []
    assert founding.rows("SELECT winner FROM winners") == [{"winner": "vllm"}]
    outcomes = founding.rows("SELECT outcome FROM points_pairs UNION ALL SELECT outcome FROM points_cells")
    assert {row["outcome"] for row in outcomes} == {"faster (point figures)"}


def test_the_document_itself_reads_the_same(make_db: MakeDatabase) -> None:
    document = SHARED / "reference" / "phase6.json"
    if not document.exists():
        pytest.skip("the published document is not beside this checkout")
    row = database(make_db, founding_cell(document)).row("FROM points_cells")
    assert row["outcome_text"] == "vllm faster over dispatch, sglang (point figures)"


INVALID: dict[str, dict[str, Any]] = {
    "no value": {"value": None},
    "zero": {"value": 0.0},
    "negative": {"value": -1.0},
    "refused": {"status": "refused"},
    "no direction": {"lower_is_better": None},
}


@pytest.fixture(scope="module")
def invalid(make_db: MakeDatabase) -> Database:
    """Return a cell for each kind of invalid figure, with one valid entrant beside it."""
    rows = [
        row
        for name, columns in INVALID.items()
        for row in (
            {**point("vllm", 1.0, cell_key=name), **columns},
            point("sglang", 2.0, cell_key=name),
        )
    ]
    return database(make_db, [{**row, "row": i} for i, row in enumerate(rows)])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no value", "no value"),
        ("zero", "the value is not positive"),
        ("negative", "the value is not positive"),
        ("refused", "refused"),
        ("no direction", "direction unknown"),
    ],
)
def test_an_invalid_figure_is_refused_with_its_reason(invalid: Database, name: str, reason: str) -> None:
    pair = invalid.row("FROM points_pairs WHERE cell_key = ? AND contestant = 'sglang'", name)
    assert (pair["outcome"], pair["speedup_vs_rival"], pair["faster"]) == ("unverified", None, None)
    assert pair["reason"] == f"vllm: {reason}"
    cell = invalid.row("FROM points_cells WHERE cell_key = ?", name)
    assert cell["outcome_text"] == f"sole entrant: sglang, refused: vllm ({reason})"


def test_devices_metrics_and_evidence_never_meet(make_db: MakeDatabase) -> None:
    rows = [
        point("a", 1.0, row=0, cell_key="k", device="X"),
        point("b", 2.0, row=1, cell_key="k", device="Y"),
        point("c", 3.0, row=2, cell_key="k", device="X", metric="tflops", lower_is_better=False),
        point("d", 4.0, row=3, cell_key="k", device="X", evidence="published"),
    ]
    pairs = database(make_db, rows).rows("FROM points_pairs")
    assert {(pair["contestant"], pair["rival"], pair["outcome"]) for pair in pairs} == {
        (name, None, "sole entrant") for name in "abcd"
    }


def test_winners_of_the_shared_latency_table(make_db: MakeDatabase, shared_cases: Path) -> None:
    rows = latency_table(shared_cases / "repro" / "09_winners.csv")
    expected = {
        "A": "tie: sglang, vllm",
        "B": "vllm faster over triton_naive (point figures), refused: sglang (nan)",
        "C": "sole entrant: vllm",
        "D": "tie: sglang, vllm",
        "E": "sole entrant: sglang, refused: vllm (the value is not positive)",
        "F": "tie: sglang, vllm",
        "G": "sole entrant: sglang, refused: vllm (the value is not positive)",
    }
    for order in (rows, rows[::-1]):
        db = database(make_db, [{**row, "row": i} for i, row in enumerate(order)])
        found = db.rows("SELECT cell_key->>'$.cell' AS cell, outcome_text FROM points_cells")
        assert {row["cell"]: row["outcome_text"] for row in found} == expected
    pair = db.row(
        "FROM points_pairs WHERE cell_key->>'$.cell' = 'B' AND contestant = 'vllm' AND rival = 'triton_naive'"
    )
    assert pair["speedup_vs_rival"] == pytest.approx(4 / 3)
    repeated = db.row("FROM points_entrants WHERE cell_key->>'$.cell' = 'D' AND contestant = 'vllm'")
    assert (repeated["figures"], repeated["value"]) == (2, pytest.approx(1100.0))


def test_units_and_directions_of_the_shared_table(make_db: MakeDatabase, shared_cases: Path) -> None:
    db = database(make_db, unit_table(shared_cases / "repro" / "10_units.csv"))

    def cell(name: str) -> dict[str, Any]:
        return db.row("FROM points_cells WHERE cell_key->>'$.cell' = ?", name)

    assert cell("A")["outcome_text"] == (
        "vllm faster over deepgemm, sglang, triton (point figures), refused: unknown (no unit)"
    )
    assert (cell("B")["metric"], cell("B")["faster"]) == ("tflops", "sglang")
    speedups = {
        row["contestant"]: row["speedup_vs_rival"]
        for row in db.rows("FROM points_pairs WHERE metric = 'tflops'")
    }
    assert speedups == pytest.approx({"sglang": 1.2, "vllm": 1 / 1.2})


def summary_of(db: Database, contestant: str) -> dict[str, Any]:
    return db.row("FROM points_summary WHERE contestant = ?", contestant)


def test_a_summary_names_each_mean_and_the_cells_that_one_entrant_has_alone(make_db: MakeDatabase) -> None:
    times = {"this": (10.0, 100.0, 100.0, 7.0, 5.0), "that": (20.0, 50.0, 100.5, None, 4.0)}
    rows = [
        point(name, value, row=5 * i + cell, cell_key=str(cell))
        for i, (name, values) in enumerate(times.items())
        for cell, value in enumerate(values)
    ] + [point("this", 1.0, row=10, cell_key="alone")]
    db = database(make_db, rows)
    this, that = summary_of(db, "this"), summary_of(db, "that")
    counts = ("shared_cells", "alone_cells", "rival_alone_cells", "refused_cells")
    assert [this[name] for name in counts] == [4, 1, 0, 1]
    assert [that[name] for name in counts] == [4, 0, 1, 1]
    assert (this["faster_cells"], this["slower_cells"], this["equal_cells"]) == (2, 2, 0)
    assert this["within_1_percent_cells"] == that["within_1_percent_cells"] == 1
    speedups = (2.0, 0.5, 1.005, 0.8)
    assert this["speedup_geomean"] == pytest.approx((2.0 * 0.5 * 1.005 * 0.8) ** 0.25)
    assert this["speedup_mean"] == pytest.approx(sum(speedups) / 4)
    assert this["speedup_median"] == pytest.approx((0.8 + 1.005) / 2)
    assert this["speedup_of_sums"] == pytest.approx(174.5 / 215.0)
    assert that["speedup_geomean"] == pytest.approx(1 / this["speedup_geomean"])


def test_summed_rates_are_no_speedup(make_db: MakeDatabase) -> None:
    rows = [
        point(name, value, row=i, cell_key="k", metric="tflops", lower_is_better=False)
        for i, (name, value) in enumerate({"this": 100.0, "that": 50.0}.items())
    ]
    this = summary_of(database(make_db, rows), "this")
    assert (this["speedup_geomean"], this["speedup_of_sums"], this["equal_cells"]) == (2.0, None, 0)


def test_versions_of_one_contestant_are_never_mixed(make_db: MakeDatabase) -> None:
    rows = [
        point("vllm", 10.0, row=0, cell_key="k", version="0.9"),
        point("vllm", 30.0, row=1, cell_key="k", version="0.8"),
        point("sglang", 20.0, row=2, cell_key="k"),
    ]
    db = database(make_db, rows)
    assert db.row("FROM points_cells")["outcome_text"] == "vllm 0.9 faster over sglang (point figures)"
    against = {
        row["version"]: row["speedup_vs_rival"]
        for row in db.rows("FROM points_pairs WHERE contestant = 'vllm'")
    }
    assert against == {"0.9": 2.0, "0.8": pytest.approx(2 / 3)}
    assert {row["rival_version"] for row in db.rows("FROM points_summary WHERE contestant = 'sglang'")} == {
        "0.8",
        "0.9",
    }


def test_less_memory_is_smaller_and_not_faster(make_db: MakeDatabase) -> None:
    rows = [
        point(name, value, row=i, cell_key="k", metric="memory_mb")
        for i, (name, value) in enumerate({"this": 100.0, "that": 200.0}.items())
    ]
    cell = database(make_db, rows).row("FROM points_cells")
    assert (cell["outcome"], cell["outcome_text"]) == (
        "smaller (point figures)",
        "this smaller than that (point figures)",
    )


def test_no_mean_is_over_two_benchmarks(make_db: MakeDatabase) -> None:
    rows = [
        point(name, value, row=2 * i + j, cell_key=str(j), benchmark=benchmark)
        for i, (name, values) in enumerate({"this": (1.0, 3.0), "that": (2.0, 1.0)}.items())
        for j, (value, benchmark) in enumerate(zip(values, ("forward", "backward"), strict=True))
    ]
    db = database(make_db, rows)
    found = db.rows("FROM points_summary WHERE contestant = 'this'")
    assert {row["benchmark"]: row["speedup_mean"] for row in found} == {
        "forward": 2.0,
        "backward": pytest.approx(1 / 3),
    }
