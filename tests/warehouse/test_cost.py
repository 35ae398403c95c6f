"""``warehouse cost``: a bill or a rate, once, for a run that is on record."""

from __future__ import annotations

import math

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.lakes import run_id
from warehouse.cli import app
from warehouse.cost import cost_row
from warehouse.errors import CostError

TEXTS = ("--covers", "one card", "--source", "invoice 12")
BILL = {
    "amount_usd": 3.2,
    "period_s": 2400.0,
    "rate_usd_per_h": None,
    "covers": "one card",
    "source": "invoice",
}


def rows(lake):
    return [row for path in (lake / "costs").glob("*.parquet") for row in pq.read_table(path).to_pylist()]


def run(*arguments):
    return CliRunner().invoke(app, ["cost", *map(str, arguments)])


def test_a_bill_is_recorded_once(lake):
    arguments = (run_id(0), "--amount-usd", 3.2, "--period-s", 2400, *TEXTS, "--lake", lake)
    first, second = run(*arguments), run(*arguments)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.output.rstrip().endswith("added")
    assert second.output.rstrip().endswith("is there already")
    (row,) = rows(lake)
    assert (row["run_id"], row["basis"], row["amount_usd"], row["period_s"]) == (
        run_id(0),
        "billing",
        3.2,
        2400,
    )
    assert (row["covers"], row["source"]) == ("one card", "invoice 12")


def test_a_rate_stands_beside_a_bill(lake):
    run(run_id(0), "--amount-usd", 3.2, "--period-s", 2400, *TEXTS, "--lake", lake)
    done = run(run_id(0), "--rate-usd-per-h", 4, *TEXTS, "--lake", lake)

    assert done.exit_code == 0
    assert sorted(row["basis"] for row in rows(lake)) == ["billing", "rate"]


def test_a_run_that_is_not_on_record_is_named(lake):
    done = run("20000101T000000Z-00000000", "--rate-usd-per-h", 4, *TEXTS, "--lake", lake)

    assert done.exit_code == 2
    assert (
        f"There is no run '20000101T000000Z-00000000' in {lake}; the newest are {run_id(0)}." in done.stderr
    )
    assert not (lake / "costs").exists()


def test_a_place_without_a_lake_is_named(tmp_path):
    done = run(run_id(0), "--rate-usd-per-h", 4, *TEXTS, "--lake", tmp_path / "none")

    assert done.exit_code == 2
    assert "There is no lake at" in done.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rate_usd_per_h": 4.0}, "give one"),
        ({"amount_usd": None}, "give one"),
        ({"period_s": None}, "needs --period-s"),
        ({"amount_usd": -1.0}, "--amount-usd is -1.0; it is a number over 0"),
        ({"amount_usd": math.nan}, "a number over 0"),
        ({"period_s": math.inf}, "a number over 0"),
        ({"covers": " "}, "--covers is blank"),
        ({"source": ""}, "--source is blank"),
    ],
)
def test_what_says_too_little_or_too_much_is_refused(changed, said):
    with pytest.raises(CostError, match=said):
        cost_row(run_id(0), **{**BILL, **changed})


def test_a_bill_without_a_finite_price_of_an_hour_is_refused():
    with pytest.raises(CostError, match="is no price of an hour"):
        cost_row("run", **BILL | {"amount_usd": 1e308, "period_s": 1e-3})
