"""Going on with a run: only under unchanged conditions, nothing lost, nothing twice."""

from __future__ import annotations

import pytest

COUNTS = (
    "SELECT contestant, count(*), count(DISTINCT (cell_id, round, sample)) FROM samples "
    "GROUP BY contestant ORDER BY contestant"
)
COMPLETE = [("dispatch", 16, 16), ("dispatch-control", 16, 16), ("example", 16, 16)]
EVENTS = "SELECT event FROM runs ORDER BY event_seq"


@pytest.fixture
def stopped(fake_race, small):
    """A race that stopped after three of its four units (both cells of session 0, one of session 1)."""
    done = fake_race(*small, FAKE_STOP_AFTER="3")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (4, "race: The test stops here.")
    assert fake_race.query(COUNTS) == [
        ("dispatch", 12, 12),
        ("dispatch-control", 12, 12),
        ("example", 12, 12),
    ]
    return fake_race


def test_resume_measures_what_is_missing_and_nothing_else(stopped):
    before = stopped.query("SELECT * FROM samples ORDER BY ALL")

    done = stopped("--resume")

    assert done.returncode == 0, done.stderr
    assert "1 units" in done.stderr
    assert stopped.query(COUNTS) == COMPLETE
    assert set(before) < set(stopped.query("SELECT * FROM samples"))
    assert stopped.query(EVENTS) == [("started",), ("stopped",), ("resumed",), ("finished",)]
    for table, keys in (
        ("rosters", "run_id, contestant, precision"),
        ("cells", "run_id, cell_id"),
        ("workers", "run_id, contestant, session"),
        ("verdicts", "run_id, cell_id, contestant, timing_mode, session, stage"),
    ):
        twice = f"SELECT {keys} FROM {table} GROUP BY {keys} HAVING count(*) > 1"
        assert stopped.query(twice) == [], table


def test_a_unit_killed_before_its_samples_leaves_nothing_twice(stopped):
    # What such a kill leaves: verdicts of the unit, and no samples.
    newest = max(stopped.lake.glob("samples/*.parquet"))
    newest.unlink()

    done = stopped("--resume")

    assert done.returncode == 0, done.stderr
    assert stopped.query(COUNTS) == COMPLETE
    keys = "run_id, cell_id, contestant, timing_mode, session, stage"
    assert stopped.query(f"SELECT {keys} FROM verdicts GROUP BY {keys} HAVING count(*) > 1") == []


def test_a_damaged_file_is_named_and_its_unit_measured_again(stopped):
    newest = max(stopped.lake.glob("samples/*.parquet"))
    newest.write_bytes(newest.read_bytes()[:100])

    done = stopped("--resume")

    assert done.returncode == 0, done.stderr
    assert f"damaged, and what it held is measured again: samples/{newest.name}" in done.stderr
    assert newest.stat().st_size == 100
    newest.unlink()  # the query below cannot read it either
    assert stopped.query(COUNTS) == COMPLETE


def test_a_second_race_registers_the_same_policy_once(stopped, small):
    stopped(*small)

    assert stopped.query("SELECT count(*) FROM policies") == [(1,)]
    assert stopped.query("SELECT count(DISTINCT run_id) FROM runs") == [(2,)]


def test_resume_of_a_named_run_with_the_same_options(stopped, small):
    ((run_id,),) = stopped.query("SELECT DISTINCT run_id FROM runs")

    assert stopped(*small, f"--resume={run_id}").returncode == 0


def test_a_finished_run_is_not_resumed(stopped):
    stopped("--resume")
    ((run_id,),) = stopped.query("SELECT DISTINCT run_id FROM runs")

    again = stopped(f"--resume={run_id}")

    assert (2, f"race: Race '{run_id}' is finished; a correction is a new run.\n") == (
        again.returncode,
        again.stderr,
    )


def test_an_unknown_run_is_named_with_the_known_ones(stopped):
    done = stopped("--resume=20200101T000000Z-00000000")

    assert done.returncode == 2
    ((run_id,),) = stopped.query("SELECT DISTINCT run_id FROM runs")
    assert (
        f"There is no race '20200101T000000Z-00000000' in {stopped.lake}; known are {run_id}." in done.stderr
    )


def test_another_plan_is_refused(stopped):
    done = stopped("--resume", "--rounds=8")

    assert done.returncode == 2
    assert "'rounds' is 8 here and 4 in race" in done.stderr
    assert stopped.query(EVENTS) == [("started",), ("stopped",)]


def test_edited_sources_are_refused(stopped):
    done = stopped("--resume", FAKE_SOURCES="sources-two")

    assert done.returncode == 5
    assert "cannot go on: the sources of dispatch or producers were edited." in done.stderr


def test_an_edited_policy_is_refused(stopped, monkeypatch):
    from checks.policy import load_policy

    path = stopped.folder / "policy.toml"
    path.write_text(load_policy().text + "\n# edited\n")
    monkeypatch.setattr("producers.race.load_policy", lambda: load_policy(path))

    done = stopped("--resume")

    assert done.returncode == 5
    assert "cannot go on: the policy was edited." in done.stderr


def test_another_version_of_a_contestant_is_refused(stopped):
    stopped.contestants(example={"version": "2"})

    done = stopped("--resume")

    assert done.returncode == 5
    assert "package_version of 'example' was 1 and is 2" in done.stderr
    assert ("interrupted",) in stopped.query(EVENTS)
    assert stopped.query(COUNTS)[2:] == [("example", 12, 12)]


def test_on_another_card_only_whole_cells_are_added(fake_race, small):
    fake_race(*small, FAKE_STOP_AFTER="1")

    done = fake_race("--resume", FAKE_UUID="cpu-two")

    assert done.returncode == 3
    assert "1 cells were begun on another card" in done.stderr
    # The first cell keeps its one session; the second has both, under numbers of their own.
    assert fake_race.query("SELECT cell_id, min(session) FROM samples GROUP BY cell_id ORDER BY cell_id") == [
        ("interpreter-small/bf16/uniform/1", 0),
        ("interpreter-small/bf16/uniform/4", 2),
    ]
    assert fake_race.query(
        "SELECT DISTINCT session, device_uuid FROM workers WHERE contestant = 'example' ORDER BY session"
    ) == [(0, "cpu-one"), (2, "cpu-two"), (3, "cpu-two")]
    assert fake_race.query("SELECT DISTINCT round FROM samples WHERE cell_id LIKE '%/4' ORDER BY round") == [
        (0,),
        (1,),
        (2,),
        (3,),
    ]


def test_and_back_on_the_first_card_the_rest_is_measured(fake_race, small):
    fake_race(*small, FAKE_STOP_AFTER="1")
    fake_race("--resume", FAKE_UUID="cpu-two", FAKE_STOP_AFTER="2")

    done = fake_race("--resume")

    assert done.returncode == 0, done.stderr
    assert fake_race.query(COUNTS) == COMPLETE
