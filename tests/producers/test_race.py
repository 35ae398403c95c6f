"""The command, end to end with fake workers: what is recorded, who is refused, exit codes."""

from __future__ import annotations

import json
import signal
import sys
import time

import duckdb
import pytest

CELL_1 = "interpreter-small/bf16/uniform/1"
CELL_4 = "interpreter-small/bf16/uniform/4"


def test_a_race_records_everything_once_and_in_order(fake_race, small):
    done = fake_race(*small)

    assert (done.returncode, done.stdout) == (0, "")
    assert fake_race.query("SELECT event, event_seq FROM runs ORDER BY event_seq") == [
        ("started", 0),
        ("finished", 1),
    ]
    # 2 cells x 4 rounds x 2 samples for each contestant, every key once.
    assert fake_race.query(
        "SELECT contestant, count(*), count(DISTINCT (cell_id, timing_mode, round, sample)) "
        "FROM samples GROUP BY contestant ORDER BY contestant"
    ) == [("dispatch", 16, 16), ("dispatch-control", 16, 16), ("example", 16, 16)]
    assert fake_race.query("SELECT DISTINCT session, round FROM samples ORDER BY ALL") == [
        (0, 0),
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    assert fake_race.query(
        "SELECT (SELECT max(registered_at) FROM policies) < (SELECT min(recorded_at) FROM runs), "
        "(SELECT min(recorded_at) FROM runs) < (SELECT min(recorded_at) FROM workers), "
        "(SELECT max(recorded_at) FROM runs) > (SELECT max(recorded_at) FROM verdicts)"
    ) == [(True, True, True)]
    assert fake_race.query("SELECT cell_id, distinct_experts, weight_bytes FROM cells ORDER BY cell_id") == [
        (CELL_1, 2, 1000),
        (CELL_4, 2, 1000),
    ]
    assert fake_race.query(
        "SELECT contestant, role, entered, control_of FROM rosters ORDER BY contestant"
    ) == [
        ("dispatch", "required", True, None),
        ("dispatch-control", "control", True, "dispatch"),
        ("example", "required", True, None),
    ]
    assert fake_race.query(
        "SELECT count(*) FROM runs JOIN policies USING (policy_sha256) WHERE event = 'started'"
    ) == [(1,)]
    assert fake_race.query("SELECT count(*) FROM workers") == [(6,)]


def test_rounds_are_shuffled_and_positions_recorded(fake_race, small):
    fake_race(*small, "--rounds=12")

    orders = fake_race.query(
        "SELECT DISTINCT string_agg(contestant, ' ' ORDER BY position) FROM samples WHERE sample = 0 "
        "GROUP BY cell_id, round"
    )
    assert len(orders) >= 4  # of 6 possible ones, over 24 rounds


@pytest.mark.parametrize(
    ("fault", "reason", "whose", "exit_code"),
    [
        ({"op": "hello", "how": "refuse", "code": "not-installed"}, "not-installed", "environment", 3),
        ({"op": "hello", "how": "die"}, "worker-did-not-start", "environment", 3),
        ({"op": "load", "how": "refuse", "code": "out-of-memory"}, "out-of-memory", "environment", 3),
        ({"op": "prepare", "how": "verdict", "code": "wrong-output"}, "wrong-output", "contestant", 0),
        ({"op": "prepare", "how": "verdict", "code": "nan-output"}, "nan-output", "contestant", 0),
        ({"op": "prepare", "how": "die"}, "worker-died", "environment", 3),
        ({"op": "prepare", "how": "garbage"}, "worker-garbage", "environment", 3),
        ({"op": "sample", "how": "die"}, "worker-died", "environment", 3),
        ({"op": "sample", "how": "hang"}, "worker-timeout", "environment", 3),
        ({"op": "sample", "how": "garbage"}, "worker-garbage", "environment", 3),
        ({"op": "sample", "how": "out-of-step"}, "worker-garbage", "environment", 3),
        ({"op": "sample", "how": "nan"}, "worker-garbage", "environment", 3),
        ({"op": "sample", "how": "sticky", "code": "illegal-memory"}, "illegal-memory", "contestant", 0),
        ({"op": "sample", "how": "refuse", "code": "no-such-code"}, "crashed", "contestant", 0),
        ({"op": "finish", "how": "verdict", "code": "nan-output"}, "nan-output", "contestant", 0),
        ({"op": "finish", "how": "die"}, "worker-died", "environment", 3),
    ],
    ids=lambda value: f"{value['op']}-{value['how']}" if isinstance(value, dict) else str(value),
)
def test_who_fails_is_refused_and_the_others_go_on(fake_race, small, fault, reason, whose, exit_code):
    fake_race.contestants(example={"faults": [fault]})

    done = fake_race(*small, "--rounds=2", "--sessions=1", "--worker-timeout=1.5")

    assert exit_code == done.returncode, done.stderr
    assert fake_race.query(
        "SELECT contestant, count(*) FROM samples GROUP BY contestant ORDER BY contestant"
    ) == [("dispatch", 8), ("dispatch-control", 8)]
    assert (reason, whose) in fake_race.query(
        "SELECT DISTINCT reason_code, fault FROM verdicts WHERE status = 'refused' AND contestant = 'example'"
    )
    cells = fake_race.query("SELECT DISTINCT cell_id FROM verdicts WHERE status = 'refused' ORDER BY cell_id")
    assert cells == [(CELL_1,), (CELL_4,)]
    assert "Traceback" not in done.stderr


def test_a_worker_that_dies_once_is_started_again_for_the_next_cell(fake_race, small):
    fake_race.contestants(example={"faults": [{"op": "sample", "how": "die", "at": 3}]})

    fake_race(*small, "--rounds=4", "--sessions=1")

    # Rounds 0 to 2 of the first cell were sampled, then it died: none of them stays.
    assert fake_race.query(
        "SELECT DISTINCT cell_id, reason_code FROM verdicts WHERE status = 'refused' AND cell_id LIKE '%/1'"
    ) == [(CELL_1, "worker-died")]
    assert (
        fake_race.query(f"SELECT * FROM samples WHERE contestant = 'example' AND cell_id = '{CELL_1}'") == []
    )
    assert (
        fake_race.query("SELECT * FROM verdicts WHERE contestant = 'dispatch' AND status = 'refused'") == []
    )
    assert fake_race.query(
        f"SELECT count(DISTINCT round) FROM samples WHERE contestant = 'dispatch' AND cell_id = '{CELL_1}'"
    ) == [(4,)]


def test_own_fault_is_not_run_again_in_later_sessions(fake_race, small):
    fake_race.contestants(example={"faults": [{"op": "prepare", "how": "verdict", "code": "wrong-output"}]})

    fake_race(*small)

    assert fake_race.query("SELECT DISTINCT session FROM verdicts WHERE status = 'refused'") == [(0,)]
    assert fake_race.query("SELECT DISTINCT session FROM workers WHERE contestant = 'example'") == [(0,)]


def test_a_required_rival_left_out_makes_every_cell_incomplete(fake_race, small):
    done = fake_race(*small, "--leave-out=example")

    assert done.returncode == 3
    assert fake_race.query("SELECT contestant, role, entered FROM rosters WHERE NOT entered") == [
        ("example", "required", False)
    ]
    assert fake_race.query(
        "SELECT cell_id, reason_code, fault FROM verdicts WHERE status = 'refused' ORDER BY cell_id"
    ) == [(CELL_1, "left-out", "environment"), (CELL_4, "left-out", "environment")]


def test_other_inputs_than_drawn_stop_the_race(fake_race, small):
    fake_race.contestants(example={"faults": [{"op": "prepare", "how": "inputs", "at": 1}]})

    done = fake_race(*small)

    assert done.returncode == 5
    assert "'example' received other inputs in interpreter-small/bf16/uniform/4" in done.stderr
    assert fake_race.query("SELECT event FROM runs WHERE event_seq = 1") == [("interrupted",)]
    assert fake_race.query("SELECT reason_code FROM verdicts WHERE status = 'refused'") == [
        ("inputs-differ",)
    ]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"how": "refuse", "code": "out-of-memory"}, "out-of-memory"),
        ({"how": "refuse", "code": "crashed"}, "crashed"),
        ({"how": "die"}, "worker-died"),
    ],
    ids=["out of memory", "crashed", "dies"],
)
def test_a_cell_that_cannot_be_drawn_fails_alone(fake_race, small, fault, code):
    done = fake_race(*small, FAKE_DRAWS=json.dumps({CELL_1: fault}))

    assert done.returncode == 3, done.stderr
    assert f"left incomplete: {CELL_1}, its inputs could not be drawn ({code}" in done.stderr
    assert f"{CELL_1} (eager): dispatch, example" in done.stderr
    assert fake_race.query(
        "SELECT contestant, reason_code, fault, stage FROM verdicts WHERE cell_id LIKE '%/1' ORDER BY ALL"
    ) == [(name, code, "environment", "plan") for name in ("dispatch", "dispatch-control", "example")]
    assert fake_race.query("SELECT cell_id, count(*) FROM samples GROUP BY ALL") == [(CELL_4, 24)]
    assert fake_race.query("SELECT cell_id FROM cells") == [(CELL_4,)]
    assert fake_race.query("SELECT event FROM runs WHERE event_seq = 1") == [("finished",)]


def test_weights_that_cannot_be_drawn_cost_the_cells_that_read_them(fake_race, small):
    draws = {"bf16": {"how": "die"}}

    done = fake_race(*small, "--precision=fp16", FAKE_DRAWS=json.dumps(draws))

    assert done.returncode == 3, done.stderr
    assert fake_race.query("SELECT DISTINCT split_part(cell_id, '/', 2) FROM samples") == [("fp16",)]
    assert fake_race.query(
        "SELECT cell_id, count(*) FROM verdicts WHERE stage = 'plan' GROUP BY ALL ORDER BY ALL"
    ) == [(CELL_1, 3), (CELL_4, 3)]


def test_a_cell_that_could_not_be_drawn_is_drawn_when_the_race_is_resumed(fake_race, small):
    fault = {CELL_1: {"how": "refuse", "code": "out-of-memory"}}
    assert fake_race(*small, FAKE_DRAWS=json.dumps(fault), FAKE_STOP_AFTER="1").returncode == 4

    done = fake_race(*small, "--resume")

    assert done.returncode == 0, done.stderr
    assert fake_race.query("SELECT cell_id, count(*) FROM samples GROUP BY ALL ORDER BY ALL") == [
        (CELL_1, 24),
        (CELL_4, 24),
    ]


def test_a_cell_that_could_not_be_drawn_stands_in_the_table_as_incomplete(fake_race, small):
    fault = {CELL_1: {"how": "refuse", "code": "out-of-memory"}}

    done = fake_race(*small, build=True, FAKE_DRAWS=json.dumps(fault))

    cell = CELL_1.partition("/")[2]
    assert any(line.startswith(cell) and "incomplete" in line for line in done.stdout.splitlines()), (
        done.stdout
    )


def test_no_referee_is_a_refusal_of_the_race(fake_race, small, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    done = fake_race(*small)

    assert done.returncode == 5
    assert done.stderr.splitlines()[-1].startswith(
        "race: The inputs could not be drawn (worker-did-not-start"
    )


def test_no_folder_of_the_machine_enters_the_lake(fake_race, small):
    fake_race.contestants(example={"faults": [{"op": "sample", "how": "die"}]})

    fake_race(*small)

    details = fake_race.query("SELECT DISTINCT detail FROM verdicts WHERE reason_code = 'worker-died'")
    assert details == [("ended during 'sample' with signal SIGKILL: about to die in kernel.py",)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_resume_completes(fake_race, small, number):
    fake_race.contestants(example={"faults": [{"op": "sample", "how": "hang", "at": 2}]})
    race = fake_race.start(*small, "--rounds=8")
    assert race.stderr is not None
    while "starting workers" not in race.stderr.readline():
        assert race.poll() is None
    time.sleep(0.5)

    race.send_signal(number)
    said = race.communicate(timeout=30)[1]

    assert race.returncode == 4, said
    assert [("stopped", f"{number.name} came.")] == fake_race.query(
        "SELECT event, detail FROM runs WHERE event_seq = 1"
    )
    fake_race.contestants(example={})
    assert fake_race(*small, "--rounds=8", "--resume").returncode == 0
    assert fake_race.query(
        "SELECT contestant, count(*) FROM samples GROUP BY contestant ORDER BY contestant"
    ) == [("dispatch", 32), ("dispatch-control", 32), ("example", 32)]


def test_a_spent_budget_stops_with_its_own_exit_code(fake_race, small):
    done = fake_race(*small, "--budget-usd=0.000001", "--rate-usd-per-h=3.6")

    assert done.returncode == 4
    assert "The budget is used up" in done.stderr
    assert fake_race.query("SELECT event FROM runs WHERE event_seq = 1") == [("stopped",)]
    ((basis, rate, amount, period),) = fake_race.query(
        "SELECT basis, rate_usd_per_h, amount_usd, period_s FROM costs"
    )
    assert ("rate", 3.6, pytest.approx(period / 1000)) == (basis, rate, amount)


def test_at_the_end_the_warehouse_is_built_and_the_winners_shown(fake_race, small):
    done = fake_race(*small, "--rounds=12", "--sessions=4", "--cells=*/4", "--db=built.db", build=True)

    assert done.returncode == 0, done.stderr
    ((outcome, winner, runner_up, margin),) = _winners(fake_race.folder / "built.db")
    # Every sample of dispatch takes 10.00 or 10.01 us, of example 20.00 or 20.01.
    assert (outcome, winner, runner_up) == ("win", "dispatch", "example")
    assert margin == pytest.approx(20.005 / 10.005)
    shown = done.stdout.splitlines()
    # 80 columns, and nothing is cut: outcome, margin and interval of the only cell.
    assert any(line.split()[2:4] == ["dispatch", "wins"] and line.count("…") == 0 for line in shown)
    assert [line for line in shown if "say nothing about any GPU" in line]
    assert str(fake_race.folder / "built.db") in shown


def test_a_place_that_is_none_for_the_warehouse_is_refused_before_anything_is_measured(fake_race, small):
    (fake_race.folder / "notes.db").write_text("not a database at all")

    done = fake_race(*small, "--db=notes.db", build=True)

    assert done.returncode == 1
    assert done.stderr == (
        "race: notes.db is not a DuckDB database and is left alone; name another file with --db.\n"
    )
    assert not fake_race.lake.exists()


def test_the_table_says_where_an_earlier_run_speaks(fake_race, small):
    whole = ("--rounds=12", "--sessions=4", "--cells=*/4")
    assert fake_race(*small, *whole, build=True).returncode == 0
    ((earlier,),) = fake_race.query("SELECT DISTINCT run_id FROM runs")

    done = fake_race(*small, *whole, "--leave-out=example", build=True)

    assert done.returncode == 3
    assert f"run {earlier} speaks here" in done.stdout


def _winners(db):
    with duckdb.connect(str(db), read_only=True) as connection:
        return connection.execute("SELECT outcome, winner, runner_up, margin FROM winners").fetchall()


def test_dry_run_starts_nothing_and_writes_nothing(fake_race, small):
    done = fake_race(*small, "--dry-run", "--leave-out=example")

    assert done.returncode == 0
    assert CELL_4 in done.stdout
    assert "LEFT OUT" in done.stdout
    assert not fake_race.lake.exists()


def test_one_race_for_each_device(fake_race, small):
    fake_race.contestants(example={"faults": [{"op": "sample", "how": "hang"}]})
    first = fake_race.start(*small)
    assert first.stderr is not None
    while "starting workers" not in first.stderr.readline():
        assert first.poll() is None
    try:
        second = fake_race(*small)
        assert second.returncode == 5, second.stderr
        assert f"Another race (process {first.pid}) holds this device" in second.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--contestant=dispatch,nobody"], "There is no contestant 'nobody'; known are dispatch"),
        (["--contestant=dispatch,dispatch"], "'contestant' of the command line names dispatch twice."),
        (["--leave-out=nobody"], "There is no contestant 'nobody'"),
        (["--leave-out=dispatch-control"], "cannot be left out"),
        (["--rounds=-3"], "'rounds' of the command line is -3; the least is 1."),
        (["--rounds=many"], "'rounds' of the command line is 'many', not a whole number."),
        (["--rounds=1", "--sessions=2"], "1 rounds cannot be spread over 2 sessions"),
        (["--tokens=0"], "'tokens' of the command line is 0; the least is 1."),
        (["--tokens=9999999999"], "'tokens' of the command line is 9999999999; the most is 2147483647."),
        (["--seed=9223372036854775808"], "; the most is 9223372036854775807."),
        (["--precision=fp4"], "has 'fp4'; known are bf16"),
        (["--routing=zipf-0"], "has 'zipf-0'; known are uniform"),
        (["--mode=graph"], "needs a CUDA device"),
        (["--workload=huge"], "There is no workload 'huge'; known are"),
        (["--cells=fp8/*"], "No cell matches fp8/*"),
        (["--interpreter=example"], "has 'example', which is not NAME=VALUE"),
        (["--interpreter=vllm=/usr/bin/python3"], "names 'vllm', who does not take part"),
        (["--budget-usd=3"], "--budget-usd needs --rate-usd-per-h"),
        (["--budget-minutes=nan"], "'budget-minutes' of the command line is 'nan', not a number over 0."),
        (["--config=missing.toml"], "Cannot read the configuration missing.toml: No such file"),
        (["--baseline=no-such-revision"], "--baseline no-such-revision: git rev-parse failed"),
        (["--resume"], "There is no unfinished race in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_sentence(fake_race, options, sentence):
    done = fake_race(*options)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not fake_race.lake.exists()


def test_a_missing_interpreter_is_a_refusal(fake_race, small):
    done = fake_race(*small, "--interpreter=example=/no/such/python")

    assert done.returncode == 3
    assert fake_race.query("SELECT DISTINCT reason_code, detail FROM verdicts WHERE status = 'refused'") == [
        ("worker-did-not-start", "no program at python")
    ]
    assert fake_race.query("SELECT interpreter FROM rosters WHERE contestant = 'example'") == [("python",)]


def test_a_lake_that_cannot_be_written_is_one_sentence(fake_race, small):
    # /proc takes no new folder from anybody, root included.
    done = fake_race(*small, "--lake=/proc/lake")

    assert done.returncode == 1
    assert "/proc/lake" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("race: ")


def test_a_lake_that_is_a_file_is_one_sentence(fake_race, small):
    fake_race.lake.write_text("no folder")

    done = fake_race(*small)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(fake_race.lake) in done.stderr


def test_a_full_disk_is_one_sentence_and_the_race_resumes(fake_race, small):
    race = fake_race.start(*small, FAKE_FULL_AFTER="2")

    said = race.communicate(timeout=60)[1]

    assert race.returncode == 1, said
    assert said.splitlines()[-1].startswith("race: ")
    assert "Traceback" not in said
    assert fake_race.query("SELECT count(*) FROM samples") == [(24,)]
    assert fake_race(*small, "--resume").returncode == 0
    assert fake_race.query(
        "SELECT contestant, count(DISTINCT (cell_id, round, sample)) FROM samples "
        "GROUP BY contestant ORDER BY contestant"
    ) == [("dispatch", 16), ("dispatch-control", 16), ("example", 16)]
