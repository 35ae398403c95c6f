"""How each engine is started and asked, and what its rows may say of its prefix cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from producers.serve.engines import ENGINES, Served, custom
from producers.serve.plan import Plan, Point, from_json
from producers.serve.prompts import Prompt

WEIGHTLESS = Served("/models/moe", "moe", weightless=True)
WEIGHTED = Served("/models/moe", "moe", weightless=False)
PROMPT = Prompt((5, 6, 7), " one two three")


@pytest.mark.parametrize(
    ("name", "cache"), [("vllm", "--no-enable-prefix-caching"), ("sglang", "--disable-radix-cache")]
)
def test_engines_with_dummy_weights_and_token_ids(name, cache):
    engine = ENGINES[name]
    words = engine.arguments(WEIGHTLESS, 8017)

    assert cache in words
    assert words[words.index("--port") + 1] == "8017"
    assert words[words.index("--load-format") + 1] == "dummy"
    assert "--load-format" not in engine.arguments(WEIGHTED, 8017)
    body = engine.body(WEIGHTLESS, PROMPT, 16)
    assert (body["prompt"], body["max_tokens"], body["ignore_eos"]) == ([5, 6, 7], 16, True)
    assert body["stream_options"] == {"include_usage": True}


def test_transformers_takes_text_and_a_whole_generation_configuration():
    body = ENGINES["transformers"].body(WEIGHTED, PROMPT, 16)

    assert body["prompt"] == " one two three"
    assert json.loads(body["generation_config"]) == {
        "max_new_tokens": 16,
        "min_new_tokens": 16,
        "do_sample": False,
    }
    assert "model" not in body  # its server knows the model by a path


def test_an_option_that_changes_the_cache_makes_its_state_unknown():
    assert ENGINES["vllm"].cache_state(("--max-num-seqs=64",)) == "off"
    assert ENGINES["vllm"].cache_state(("--enable-prefix-caching",)) == "unknown"
    assert ENGINES["transformers"].cache_state(("--continuous-batching",)) == "unknown"
    assert custom("mine", "serve {model}").cache_state(()) == "unknown"


def test_a_command_of_ones_own_is_filled_in():
    engine = custom("mine", "/opt/serve --model {model} --port={port}")

    assert (engine.program, engine.arguments(WEIGHTED, 99)) == (
        "/opt/serve",
        ["--model", "/models/moe", "--port=99"],
    )
    with pytest.raises(ValueError, match="is empty"):
        custom("mine", " ")


def test_the_coordinator_needs_no_torch_no_engine_and_no_database():
    absent = ("torch", "duckdb", "typer", "polars", "pandas", "transformers", "guidellm", "vllm", "sglang")
    code = f"import sys\nfor name in {absent}:\n    sys.modules[name] = None\nimport producers.serve.__main__"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def plan(**given):
    defaults = {
        "engines": ("vllm", "sglang"),
        "model": "moe",
        "weights": "dummy",
        "concurrency": (1, 4, 16, 64),
        "repeats": 3,
        "requests": None,
        "input_tokens": 128,
        "output_tokens": 128,
        "request_rate": None,
        "seed": 0,
        "arguments": {"vllm": ("--max-num-seqs", "64")},
    }
    return Plan(**(defaults | given))


def test_every_repeat_visits_every_load_in_an_order_of_its_own():
    points = plan(repeats=8).points("vllm")
    orders = [[p.concurrency for p in points if p.repeat == repeat] for repeat in range(8)]

    assert [sorted(order) for order in orders] == [[1, 4, 16, 64]] * 8
    assert len({tuple(order) for order in orders}) > 3
    assert plan(repeats=8).points("vllm") == points
    assert points[0] == Point("vllm", points[0].concurrency, 0)


def test_the_requests_of_a_point_follow_from_its_load():
    assert [plan().requests_of(n) for n in (1, 2, 4, 16, 64)] == [8, 12, 24, 64, 256]
    assert plan(requests=5).requests_of(64) == 5


def test_a_plan_survives_the_lake():
    assert from_json(json.loads(plan().to_json())) == plan()
