"""kill -9 of the coordinator at random moments: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROUNDS, SESSIONS, SAMPLES = 8, 4, 2
OPTIONS = (
    "--contestant=dispatch,example",
    "--precision=bf16,int8_w8a8",
    "--routing=uniform",
    "--tokens=1,4",
    f"--rounds={ROUNDS}",
    f"--sessions={SESSIONS}",
    f"--samples={SAMPLES}",
)
KEYS = "run_id, cell_id, contestant, timing_mode, round, sample"


def processes_of(folder: Path) -> list[int]:
    """Processes whose environment has ``folder`` as their temporary folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended while we looked, or belongs to somebody else
    return [pid for pid in found if pid != os.getpid()]


def kill_and_resume(fake_race, kills: int, seed: int) -> None:
    """Start a race, kill it ``kills`` times (resuming each time), let it complete, and check the lake."""
    generator = random.Random(seed)
    options = OPTIONS
    acknowledged: set[tuple[object, ...]] = set()
    killed = 0
    while killed < kills:
        race = fake_race.start(*options)
        time.sleep(generator.uniform(0.3, 2.2))
        if race.poll() is None:
            race.send_signal(signal.SIGKILL)
        said = race.communicate(timeout=30)[1]
        if race.returncode == 0:  # it was done before the kill: begin another race
            options = OPTIONS
            continue
        killed += 1
        assert race.returncode == -signal.SIGKILL, said
        deadline = time.monotonic() + 10
        while orphans := processes_of(fake_race.folder):
            assert time.monotonic() < deadline, f"orphans: {orphans}"
            time.sleep(0.05)
        for path in fake_race.lake.rglob("*.parquet"):
            pq.read_table(path)  # every file under a final name is whole
        if any(fake_race.lake.glob("runs/*.parquet")):
            last = fake_race.query("SELECT arg_max(event, event_seq) FROM runs GROUP BY run_id")
            # A race that was killed on its way out is finished; the next one is new.
            options = OPTIONS if set(last) == {("finished",)} else ("--resume",)
        if any(fake_race.lake.glob("samples/*.parquet")):
            now = set(fake_race.query(f"SELECT {KEYS}, time_us FROM samples"))
            assert acknowledged <= now
            acknowledged = now
    done = fake_race(*options)

    assert done.returncode == 0, done.stderr
    assert acknowledged <= set(fake_race.query(f"SELECT {KEYS}, time_us FROM samples"))
    assert fake_race.query(f"SELECT {KEYS} FROM samples GROUP BY {KEYS} HAVING count(*) > 1") == []
    each = 4 * ROUNDS * SAMPLES
    counts = fake_race.query("SELECT run_id, contestant, count(*) FROM samples GROUP BY ALL")
    assert counts
    assert {each} == {count for *_, count in counts}
    assert {("finished",)} == set(
        fake_race.query("SELECT arg_max(event, event_seq) FROM runs GROUP BY run_id")
    )


def test_three_kills(fake_race):
    kill_and_resume(fake_race, kills=3, seed=1)


@pytest.mark.slow
def test_fifty_kills(fake_race):
    kill_and_resume(fake_race, kills=50, seed=2)
