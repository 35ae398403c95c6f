"""Served engines: who leads, and where nobody may."""

from __future__ import annotations

import pytest

from queries import statement
from tests.queries.conftest import Database, MakeDatabase, Row
from tests.queries.served import RUN, repeats, served, write_served

METRICS = ("e2e_p50_ms", "output_tokens_per_s", "tpot_p50_ms", "ttft_p50_ms", "ttft_p99_ms")
FAST, SLOW = (10.0, 10.1, 10.2), (12.0, 12.1, 12.2)


UNEQUAL = {"input_tokens": 3742, "output_tokens": 2196}
DIFFERENCES = [
    (UNEQUAL, "unequal workload: 3742 tokens in and 2196 out against 32 and 20"),
    ({"input_tokens": 33}, "unequal workload"),
    ({"output_tokens": None}, "unequal workload: measured tokens are unknown"),
    ({"prompts_sha256": "others"}, "unequal workload: other prompts"),
    ({"output_tokens_asked": 6}, "unequal workload: other lengths asked"),
    ({"client": "vllm bench serve"}, "client differs: vllm bench serve 0.8.1 against guidellm 0.8.1"),
    ({"client_version": "0.9"}, "client differs"),
    ({"weights": "trained"}, "weights differ: trained against dummy"),
    ({"device_uuid": "GPU-1"}, "other card"),
    ({"prefix_cache": "on"}, "prefix cache differs: on against off"),
    ({"requests_completed": 3, "requests_failed": 1}, "failure share 0.25 against 0"),
    ({"requests_asked": None, "requests_failed": None}, "failures unknown"),
    ({"requests_asked": 3}, "failures unknown"),  # four of three succeeded
    ({"requests_failed": 1}, "failure share 0.2 against 0"),  # four of four succeeded, and one failed
]
CACHES = [
    ({"prefix_cache": "unknown"}, "prefix cache unknown"),
    ({"prefix_cache": "on", "prefix_cache_hits": 7}, "answered from the prefix cache"),
    ({"prefix_cache": "on"}, "answered from the prefix cache"),
    ({"prefix_cache": "on", "prefix_cache_hits": 0}, None),
]
LATER = "20260301T000000Z-00000002"
OTHERS = "20260201T000000Z-00000003"
IMPORTED = {"evidence": "imported", "run_id": None, "import_id": "x", "prompts_sha256": None}
REFUSED = {"status": "refused", "reason": "out-of-memory: ...", "output_tokens_per_s": None}

# Name of the model -> served runs; each scenario is a model of its own in one lake.
SCENARIOS = {
    "apart": [*repeats("vllm", *FAST), *repeats("sglang", *SLOW)],
    "touching": [*repeats("vllm", 10.0, 10.1, 12.0), *repeats("sglang", *SLOW)],
    "two": [*repeats("a", *FAST[:2]), *repeats("b", *SLOW)],
    "refused": [*repeats("vllm", *FAST), served("sglang", **REFUSED)],
    "latest": [
        *repeats("vllm", *SLOW),
        *repeats("vllm", *FAST, run_id=LATER),
        *repeats("sglang", *SLOW, run_id=LATER),
    ],
    "settings": [*repeats("vllm", *FAST), served("vllm", token_ms=9.0, server_args_json="tuned", repeat=9)],
    "tuned": [
        *repeats("vllm", *FAST, server_args_json='["default"]'),
        *(
            row | {"serving_id": row["serving_id"] + "/tuned"}
            for row in repeats("vllm", 8.0, 8.1, 8.2, server_args_json='["tuned"]')
        ),
        *repeats("sglang", *SLOW),
    ],
    "imported": [*repeats("a", *FAST, **IMPORTED), *repeats("b", *SLOW, **IMPORTED)],
    "mixed": [*repeats("a", *FAST), *repeats("b", *SLOW, **IMPORTED)],
    "loads": [*repeats("a", *FAST), *repeats("b", *SLOW, max_concurrency=16)],
    "free": repeats("a", *FAST, run_id=OTHERS),
    **{
        f"difference {n}": [*repeats("a", *FAST, **d), *repeats("b", *SLOW)]
        for n, (d, _) in enumerate(DIFFERENCES)
    },
    **{
        f"cache {n}": [*repeats("a", *FAST, **c), *repeats("b", *SLOW, **c)]
        for n, (c, _) in enumerate(CACHES)
    },
}
COSTS = (
    {"run_id": RUN, "basis": "rate", "rate_usd_per_h": 3.6, "amount_usd": 0.36, "period_s": 360.0},
    {"run_id": RUN, "basis": "billing", "amount_usd": 2.0, "period_s": 1000.0},
)


@pytest.fixture(scope="module")
def db(make_db: MakeDatabase) -> Database:
    """All scenarios."""
    rows = [
        row | {"model": model, "serving_id": f"{model}/{row['serving_id']}"}
        for model, served_rows in SCENARIOS.items()
        for row in served_rows
    ]
    return make_db(then=lambda lake: write_served(lake, rows, *COSTS))


def outcomes(db: Database, model: str) -> dict[str, Row]:
    """Metric -> row of ``serving`` of one scenario."""
    return {row["metric"]: row for row in db.rows("SELECT * FROM serving WHERE model = ?", model)}


def test_an_engine_leads_where_its_repeats_lie_apart(db):
    found = outcomes(db, "apart")

    assert tuple(sorted(found)) == METRICS
    assert found["tpot_p50_ms"]["outcome"] == "leads"
    assert found["tpot_p50_ms"]["leader"] == "vllm 1.0"
    assert found["tpot_p50_ms"]["margin"] == pytest.approx(12.1 / 10.1)
    assert found["output_tokens_per_s"]["leader"] == "vllm 1.0"
    assert found["output_tokens_per_s"]["margin"] == pytest.approx((50 + 48.4) / (50 + 40.4))
    assert found["ttft_p50_ms"]["outcome"] == "level"  # equal times to the first token
    assert found["ttft_p50_ms"]["leader"] is None
    pair = db.row(
        "SELECT * FROM serving_pairs WHERE model = 'apart' AND metric = 'tpot_p50_ms' AND entrant = 'vllm 1.0'"
    )
    assert (pair["lo"], pair["hi"]) == (pytest.approx(12.0 / 10.2), pytest.approx(12.2 / 10.0))
    metric = db.row(
        "SELECT * FROM serving_metrics WHERE model = 'apart' AND metric = 'tpot_p50_ms' AND engine = 'vllm'"
    )
    assert (metric["lo"], metric["value"], metric["hi"]) == tuple(map(pytest.approx, FAST))
    assert metric["coverage"] == pytest.approx(0.75)


def test_intervals_that_touch_decide_nothing(db):
    found = outcomes(db, "touching")["tpot_p50_ms"]

    assert (found["outcome"], found["leader"]) == ("level", None)


@pytest.mark.parametrize("number", range(len(DIFFERENCES)))
def test_nobody_leads_where_something_differs(db, number):
    model, reason = f"difference {number}", DIFFERENCES[number][1]
    found = outcomes(db, model)

    for metric in METRICS:
        row = found[metric]
        assert (row["outcome"], row["leader"], row["margin"]) == ("no comparison", None, None)
        assert reason in row["reason"]
    pairs = db.rows("SELECT speedup_vs_rival, lo FROM serving_pairs WHERE model = ?", model)
    assert len(pairs) == 2 * len(METRICS)
    assert {(row["speedup_vs_rival"], row["lo"]) for row in pairs} == {(None, None)}


@pytest.mark.parametrize("number", range(len(CACHES)))
def test_a_prefix_cache_that_may_have_answered_decides_nothing(db, number):
    row, reason = outcomes(db, f"cache {number}")["tpot_p50_ms"], CACHES[number][1]

    assert row["outcome"] == ("leads" if reason is None else "no comparison")
    assert (reason or "") in (row["reason"] or "")


def test_two_repeats_are_too_few(db):
    row = outcomes(db, "two")["tpot_p50_ms"]

    assert row["outcome"] == "no comparison"
    assert row["reason"].endswith("2 repeats of at least 3")


def test_the_policy_of_the_run_says_how_many_and_how_equal(make_db):
    policy = "[serving]\nmin_repeats = 2\ntoken_tolerance = 0.5\nmax_failure_share = 0.01\n"
    rows = [*repeats("a", *FAST[:2], input_tokens=40), *repeats("b", *SLOW[:2])]
    lenient = make_db(then=lambda lake: write_served(lake, rows, policy=policy))

    assert outcomes(lenient, "toy")["tpot_p50_ms"]["outcome"] == "leads"


def test_what_was_refused_is_named_and_takes_no_part(db):
    row = outcomes(db, "refused")["tpot_p50_ms"]

    assert (row["outcome"], row["refused"]) == ("sole entrant", "sglang")


def test_of_several_runs_the_latest_speaks(db):
    entrant = db.row("SELECT * FROM serving_entrants WHERE model = 'latest' AND engine = 'vllm'")

    assert (entrant["run_id"], entrant["repeats"]) == (LATER, 3)
    assert entrant["tpot_p50_ms"] == pytest.approx(10.1)


def test_other_settings_of_an_engine_are_other_entrants_and_no_rivals(db):
    names = {
        row["entrant"] for row in db.rows("SELECT entrant FROM serving_entrants WHERE model = 'settings'")
    }

    assert names == {"vllm 1.0", "vllm 1.0 (setting 2)"}
    assert outcomes(db, "settings")["tpot_p50_ms"]["outcome"] == "sole entrant"


def test_of_two_settings_that_are_apart_the_better_leads_by_its_own_margin(db):
    row = outcomes(db, "tuned")["tpot_p50_ms"]

    assert (row["outcome"], row["leader"]) == ("leads", "vllm 1.0 (setting 2)")
    assert row["margin"] == pytest.approx(12.1 / 8.1)


def test_imported_figures_never_lead(db):
    row = outcomes(db, "imported")["tpot_p50_ms"]

    assert (row["outcome"], row["faster"], row["leader"]) == ("faster (point figures)", "a 1.0", None)


@pytest.mark.parametrize("model", ["mixed", "loads"])
def test_evidence_and_loads_are_cells_of_their_own(db, model):
    assert db.rows("SELECT * FROM serving_pairs WHERE model = ?", model) == []
    assert {row["outcome"] for row in db.rows("SELECT outcome FROM serving WHERE model = ?", model)} == {
        "sole entrant"
    }


def test_a_bill_beats_the_rate_and_both_are_shown(db):
    printed = next(row for row in db.rows(statement("serving")) if row["model"] == "apart")
    per_s = db.row(
        "SELECT output_tokens_per_s AS v FROM serving_entrants WHERE model = 'apart' AND engine = 'sglang'"
    )

    assert (printed["entrant"], printed["cost_basis"]) == ("sglang 1.0", "billing")
    assert printed["usd_per_million_output_tokens"] == pytest.approx(2000 / per_s["v"], abs=1e-3)
    assert printed["usd_per_million_by_rate"] == pytest.approx(1000 / per_s["v"], abs=1e-3)


def test_without_money_there_is_no_price(db):
    entrant = db.row("SELECT * FROM serving_entrants WHERE model = 'free'")

    assert (entrant["usd_per_million_by_rate"], entrant["usd_per_million_by_billing"]) == (None, None)


def test_bills_for_the_same_thing_follow_one_another_and_others_add_up(make_db):
    bill = {"run_id": RUN, "basis": "billing", "period_s": 3600.0}
    costs = [
        bill | {"covers": "card", "amount_usd": 4.0},
        bill | {"covers": "card", "amount_usd": 2.0},
        bill | {"covers": "disk", "amount_usd": 1.0, "period_s": 7200.0},
        {"run_id": RUN, "basis": "rate", "rate_usd_per_h": 5.0},
    ]
    priced = make_db(then=lambda lake: write_served(lake, repeats("a", *FAST), *costs))

    assert priced.rows("SELECT * FROM serving_costs") == [
        {"run_id": RUN, "rate_usd_per_h": 5.0, "billed_usd_per_h": pytest.approx(3.5)}
    ]
