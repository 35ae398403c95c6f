"""The serve command against servers that behave and servers that do not: what the lake says afterwards."""

from __future__ import annotations

import json
import os

import pytest

BAD = (
    "503",
    "in-band",
    "zero-tokens",
    "dropped",
    "cut",
    "exits",
    "out-of-memory",
    "short",
    "chunky",
    "buffered",
    "one-in-three",
)


@pytest.fixture(scope="module")
def bad(shared_serve):
    """One run over many servers, and the rows that it left."""
    done = shared_serve(*shared_serve.arguments(*BAD), "--requests=6")
    return done, shared_serve.runs(), shared_serve


def test_a_point_is_measured_and_recorded(serve):
    done = serve(
        *serve.arguments("ok", token_s=0.01), "--concurrency=1,2", "--repeats=2", "--rate-usd-per-h=3.6"
    )

    assert done.returncode == 0, done.stderr
    rows = serve.rows("SELECT * FROM serving_runs ORDER BY max_concurrency, repeat")
    assert [(row["max_concurrency"], row["repeat"]) for row in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    for row in rows:
        assert (row["status"], row["reason"]) == ("passed", None)
        assert (row["requests_completed"], row["requests_failed"]) == (4, 0)
        assert (row["input_tokens"], row["output_tokens"]) == (32, 16)
        assert row["e2e_p50_ms"] > 30  # four waits of 10 ms each
        assert 10 < row["ttft_p50_ms"] < row["e2e_p50_ms"] - 15
        assert row["tpot_mean_ms"] > 5
        assert row["itl_unit"] == "token"
        assert (row["client"], row["client_version"]) == ("guidellm", "0.8.1")
        assert (row["device"], row["weights"], row["model"]) == ("cpu", "dummy", "toy")
        assert json.loads(row["server_args_json"])["arguments"][-2:] == ["--port", "PORT"]
        assert str(serve.folder) not in json.dumps(row, default=str)
    assert len({row["prompts_sha256"] for row in rows}) == 4
    requests = serve.rows("SELECT * FROM serving_requests ORDER BY serving_id, request")
    assert [row["request"] for row in requests] == [0, 1, 2, 3] * 4
    assert all(len(row["chunk_gaps_ms"]) == 3 and row["e2e_source"] == "measured" for row in requests)
    alone, paired = rows[0]["output_tokens_per_s"], rows[2]["output_tokens_per_s"]
    assert paired > 1.3 * alone  # two in flight at once
    (cost,) = serve.rows("SELECT * FROM costs")
    assert cost["amount_usd"] == pytest.approx(cost["period_s"] * 0.001)
    events = serve.rows("SELECT event, producer FROM runs ORDER BY event_seq")
    assert events == [{"event": e, "producer": "serve"} for e in ("started", "finished")]
    assert serve.processes() == []


def test_two_engines_are_asked_the_same(serve):
    done = serve(*serve.arguments("ok", "slow-start"), "--client-processes=2", "--requests=5")

    assert done.returncode == 0, done.stderr
    runs = serve.runs()
    assert runs["ok"]["prompts_sha256"] == runs["slow-start"]["prompts_sha256"]
    assert json.loads(runs["slow-start"]["extra_json"])["ready_s"] >= 1
    assert {json.loads(run["extra_json"])["client_processes"] for run in runs.values()} == {2}
    for run in runs.values():  # two processes with a lane each: every request once, in its place
        where = f"WHERE serving_id = '{run['serving_id']}' ORDER BY request"
        starts = serve.rows(f"SELECT request, start_s FROM serving_requests {where}")
        assert [row["request"] for row in starts] == [0, 1, 2, 3, 4]
        assert starts[0]["start_s"] < starts[2]["start_s"] < starts[4]["start_s"]
        assert starts[1]["start_s"] < starts[3]["start_s"]
        assert run["requests_completed"] == 5


def test_what_goes_wrong_is_a_refusal_with_its_reason(bad):
    done, runs, serve = bad

    assert done.returncode == 3
    assert "points were refused" in done.stderr
    for engine, said in (
        ("503", "503 Service Unavailable"),
        ("in-band", "the scheduler is full"),
        ("zero-tokens", "empty response"),
        ("dropped", "RemoteProtocolError"),
        ("cut", "it was cut"),
    ):
        assert runs[engine]["status"] == "refused"
        assert runs[engine]["reason"].startswith("all-requests-failed: of 6")
        assert said in runs[engine]["reason"]
        assert (runs[engine]["requests_completed"], runs[engine]["requests_failed"]) == (0, 6)
        assert runs[engine]["output_tokens_per_s"] is None
    assert runs["exits"]["reason"].startswith("server-died: ended before it was ready with status 1")
    assert "no such architecture" in runs["exits"]["reason"]
    assert runs["out-of-memory"]["reason"].startswith("out-of-memory:")
    failed = serve.rows("SELECT DISTINCT ttft_ms, e2e_ms, tpot_ms FROM serving_requests WHERE NOT ok")
    assert failed == [{"ttft_ms": None, "e2e_ms": None, "tpot_ms": None}]


def test_what_differs_is_measured_and_says_so(bad):
    _, runs, _ = bad

    assert runs["short"]["output_tokens"] == 18
    assert runs["chunky"]["itl_unit"] == "chunk"
    assert runs["chunky"]["tpot_mean_ms"] < runs["chunky"]["itl_mean_ms"]
    assert runs["buffered"]["ttft_p50_ms"] is None
    assert runs["buffered"]["tpot_p50_ms"] is None
    assert runs["buffered"]["e2e_p50_ms"] > 0
    assert runs["one-in-three"]["status"] == "passed"
    assert 0 < runs["one-in-three"]["requests_failed"] <= 3
    counted = runs["one-in-three"]["requests_completed"] + runs["one-in-three"]["requests_failed"]
    assert counted == 6


def test_a_server_that_is_never_well_is_given_up(serve):
    done = serve(*serve.arguments("never-healthy"), "--health-timeout=1")

    assert done.returncode == 3
    assert serve.runs()["never-healthy"]["reason"].startswith("health-timeout: not ready after 1 s (503)")
    assert serve.processes() == []


def test_a_server_that_dies_under_load_is_started_again_for_the_other_points(serve):
    # Two requests of warm-up and four of the point: the sixth ends it, in each of two points.
    done = serve(*serve.arguments("crash"), "--repeats=2")

    assert done.returncode == 3
    rows = serve.rows("SELECT * FROM serving_runs ORDER BY repeat")
    assert [row["reason"].split(":")[0] for row in rows] == ["server-died", "server-died"]
    assert "the sixth request" in rows[0]["reason"]
    assert [row["requests_completed"] + row["requests_failed"] for row in rows] == [4, 4]
    assert all(row["requests_failed"] >= 1 for row in rows)


def test_silence_is_a_failure_of_the_request(serve):
    done = serve(*serve.arguments("hang"), "--requests=2", "--request-timeout=0.5")

    assert done.returncode == 3
    assert "ReadTimeout" in serve.runs()["hang"]["reason"]


def test_a_point_that_takes_too_long_is_cut_off(serve):
    done = serve(*serve.arguments("hang"), "--requests=2", "--point-timeout=1")

    assert done.returncode == 3
    assert "not done within 1 s" in serve.runs()["hang"]["reason"]


def test_a_client_that_does_not_start_is_the_clients_fault(serve):
    client = serve.folder / "client"
    client.write_text("#!/bin/sh\necho 'no guidellm here' >&2\nexit 3\n")
    client.chmod(0o755)
    done = serve(*serve.arguments("ok"), f"--interpreter=client={client}")

    assert done.returncode == 3
    assert serve.runs()["ok"]["reason"].startswith("client-crashed: worker-died")
    assert "no guidellm here" in serve.runs()["ok"]["reason"]


def test_an_engine_that_is_not_installed_is_refused_by_name(serve):
    empty = serve.folder / "python"
    empty.write_text('#!/bin/sh\necho \'{"vllm": null, "torch": null, "transformers": null}\'\n')
    empty.chmod(0o755)
    done = serve(*serve.arguments("ok"), "--engines=vllm,ok", f"--interpreter=vllm={empty}")

    assert done.returncode == 3
    runs = serve.runs()
    assert "has no package 'vllm'" in runs["vllm"]["reason"]
    assert runs["vllm"]["reason"].startswith("not-installed:")
    assert runs["ok"]["status"] == "passed"


def test_stubborn_processes_are_ended_by_ancestry(serve):
    done = serve(
        *serve.arguments("family"), "--stop-timeout=0.5"
    )  # its child has a session of its own; both ignore SIGTERM

    assert done.returncode == 0, done.stderr
    assert "processes by force" in done.stderr
    assert serve.processes() == []


def test_engines_in_turns_are_one_run(serve):
    first = serve(*serve.arguments("ok", "slow-start"), "--only=ok")
    assert first.returncode == 4
    assert "slow-start left" in first.stderr
    again = [option for option in serve.arguments("ok", "slow-start") if "concurrency" not in option]
    second = serve(*again, "--only=slow-start", "--resume")

    assert second.returncode == 0, second.stderr
    assert {row["run_id"] for row in serve.rows("SELECT run_id FROM serving_runs")} == {
        serve.rows("SELECT DISTINCT run_id FROM runs")[0]["run_id"]
    }
    events = [row["event"] for row in serve.rows("SELECT event FROM runs ORDER BY event_seq")]
    assert events == ["started", "stopped", "resumed", "finished"]
    assert len(serve.runs()) == 2


def test_a_resumed_run_measures_what_is_missing_and_keeps_its_plan(serve):
    # A budget of a tenth of a second is spent when the server is ready.
    stopped = serve(*serve.arguments("ok"), "--repeats=2", "--budget-minutes=0.002")
    assert stopped.returncode == 4, stopped.stderr
    other = serve(*serve.arguments("ok"), "--repeats=3", "--resume")
    assert other.returncode == 2
    assert "'repeats' is 3 here and 2 in serve run" in other.stderr
    done = serve(*serve.arguments("ok"), "--repeats=2", "--resume")

    assert done.returncode == 0, done.stderr
    assert [row["repeat"] for row in serve.rows("SELECT repeat FROM serving_runs ORDER BY ALL")] == [0, 1]
    finished = serve(*serve.arguments("ok"), "--repeats=2", "--resume")
    assert finished.returncode == 2
    assert "no unfinished serve run" in finished.stderr


def test_a_run_is_not_resumed_with_another_model(serve):
    first = serve(*serve.arguments("ok", "chunky"), "--only=ok")
    assert first.returncode == 4, first.stderr
    config = serve.model / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "layers": 1}))
    done = serve(*serve.arguments("ok", "chunky"), "--resume")

    assert done.returncode == 5
    assert "config.json is not what serve run" in done.stderr
    assert len(serve.rows("SELECT * FROM serving_runs")) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--concurrency=0",), "'--concurrency' is 0; it lies from 1"),
        (("--concurrency=2,2",), "names one twice"),
        (("--engines=vlm",), "There is no engine 'vlm'"),
        (("--server=bad",), "which is not NAME=VALUE"),
        (("--weights=real",), "known are trained, dummy"),
        (("--request-rate=nan",), "not a number over 0"),
        (("--model=/nowhere",), "names a folder with config.json and tokenizer.json"),
        (("--resume=20200101T000000Z-00000000",), "There is no serve run '20200101T000000Z-00000000'"),
        (("--only=sglang",), "'sglang' is none of the run's engines"),
        (("--engine-arg=ok='",), "has words for 'ok' that cannot be read: No closing quotation."),
        (
            ("--engine-arg=vllm=--x",),
            "An option is for 'vllm', which the run does not serve; --engines is ok.",
        ),
        (("--server=other=true",), "An option is for 'other', which the run does not serve"),
        (("--server=a/b=true",), "has the name 'a/b'; letters, digits"),
        (("--server=a=true '",), "has a command for 'a' that cannot be read: No closing quotation."),
        (("--interpreter=vlm=python",), "names 'vlm', which is none of client, vllm"),
        (("--import-path=client=/nowhere",), "has '/nowhere', which is no folder."),
        (("--client-processes=3000",), "is 3000; it lies from 1 to 64"),
        (("--requests=2000000000",), "A point would send 16000000000 tokens"),
        (("--repeats=2000000000",), "points of an engine are the most"),
        (("--model=",), "'--model' is empty."),
    ],
)
def test_a_wrong_option_is_one_sentence(serve, options, said):
    done = serve(*serve.arguments("ok"), *options)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not serve.lake.exists()


def test_a_lake_that_cannot_be_written_ends_the_run_and_the_server(serve):
    serve.lake.write_text("a file where the lake should be")
    done = serve(*serve.arguments("ok"))

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("serve: ")
    assert serve.processes() == []


def test_requests_arrive_at_the_rate_that_is_asked_for(serve):
    done = serve(*serve.arguments("ok"), "--request-rate=20", "--requests=8", "--concurrency=8")

    assert done.returncode == 0, done.stderr
    (run,) = serve.rows("SELECT * FROM serving_runs")
    assert (run["request_rate_per_s"], run["request_rate_mode"]) == (20, "fixed")
    starts = [row["start_s"] for row in serve.rows("SELECT start_s FROM serving_requests ORDER BY request")]
    assert starts == sorted(starts)
    assert starts[-1] > 0.05
    assert os.environ["TRITON_INTERPRET"] == "1"
