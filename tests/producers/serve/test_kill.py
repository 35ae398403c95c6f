"""kill -9 of the producer at each stage: no process is left, the port is free, the run says that it was interrupted."""

from __future__ import annotations

import re
import signal
import time
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from producers.serve.epitaph import mark
from tests.producers.serve.conftest import listening
from warehouse.append import append

WITHIN_S = 20.0


def lines_until(process, said: str) -> tuple[str, int]:
    """What the producer wrote up to a line with ``said``, and the port of its server."""
    seen = ""
    while said not in seen:
        line = process.stderr.readline()
        assert line, f"ended before '{said}': {seen}"
        seen += line
    return seen, int(re.search(r"on port (\d+)", seen)[1])


@pytest.mark.parametrize(
    ("stage", "mode", "options", "said", "wait_s"),
    [
        ("starting", "never-healthy", (), "starting on port", 0.5),
        ("healthy", "ok", (), "ready after", 0.0),
        ("under load", "ok", ("--output-tokens=150", "--requests=6"), "ready after", 1.5),
        ("stopping", "family", ("--stop-timeout=30",), " failed", 0.5),
    ],
)
def test_a_producer_that_is_killed_leaves_nothing(serve, stage, mode, options, said, wait_s):
    producer = serve.start(*serve.arguments(mode, token_s=0.005), *options)
    try:
        _, port = lines_until(producer, said)
        time.sleep(wait_s)
        assert producer.poll() is None
        if stage != "starting":
            assert listening(port)
    finally:
        producer.send_signal(signal.SIGKILL)
        producer.communicate(timeout=30)

    deadline = time.monotonic() + WITHIN_S
    while orphans := serve.processes():
        assert time.monotonic() < deadline, f"{stage}: processes {orphans} are left"
        time.sleep(0.05)
    assert not listening(port)
    for path in serve.lake.rglob("*.parquet"):
        pq.read_table(path)  # every file under a final name is whole
    events = serve.rows("SELECT event, detail FROM runs ORDER BY event_seq")
    assert [row["event"] for row in events] == ["started", "interrupted"]
    assert events[-1]["detail"] == "the producer vanished; no server of it is left"
    measured = serve.rows("SELECT * FROM serving_runs") if (serve.lake / "serving_runs").exists() else []
    assert len(measured) == (1 if stage == "stopping" else 0)  # what was acknowledged is there

    resumed = serve(*serve.arguments(mode, token_s=0.005), *options, "--health-timeout=1", "--resume")
    assert resumed.returncode in {0, 3}, resumed.stderr
    assert serve.rows("SELECT arg_max(event, event_seq) AS last FROM runs") == [{"last": "finished"}]
    assert serve.processes() == []


def test_a_producer_that_is_killed_before_a_server_runs_is_marked_too(serve):
    client = serve.folder / "client"
    client.write_text("#!/bin/sh\nexec sleep 600\n")
    client.chmod(0o755)
    producer = serve.start(*serve.arguments("ok"), f"--interpreter=client={client}")
    while not list((serve.lake / "runs").glob("*.parquet")):
        assert producer.poll() is None
        time.sleep(0.05)
    producer.send_signal(signal.SIGKILL)
    producer.communicate(timeout=30)

    deadline = time.monotonic() + WITHIN_S
    while orphans := serve.processes():
        assert time.monotonic() < deadline, f"processes {orphans} are left"
        time.sleep(0.05)
    events = serve.rows("SELECT event, run_id FROM runs ORDER BY event_seq")
    assert [row["event"] for row in events] == ["started", "interrupted"]
    run_id = events[0]["run_id"]
    assert not mark(serve.lake, run_id, 0)  # somebody else was first
    resumed = {"run_id": run_id, "event_seq": 2, "event": "resumed", "producer": "serve", "device": "cpu"}
    append(serve.lake, "runs", [{**resumed, "recorded_at": datetime.now(UTC)}])
    assert not mark(serve.lake, run_id, 0)  # the run goes on
    assert mark(serve.lake, run_id, 2)


def test_a_signal_stops_the_run_cleanly(serve):
    producer = serve.start(*serve.arguments("ok", token_s=0.005), "--output-tokens=2000", "--requests=40")
    _, port = lines_until(producer, "ready after")
    producer.send_signal(signal.SIGTERM)
    said = producer.communicate(timeout=60)[1]

    assert producer.returncode == 4, said
    assert "SIGTERM came" in said
    assert not listening(port)
    events = serve.rows("SELECT event FROM runs ORDER BY event_seq")
    assert [row["event"] for row in events] == ["started", "stopped"]
