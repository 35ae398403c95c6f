"""Options from TOML and the command line: the same checks, one sentence for each mistake."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from producers import config
from producers.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def arguments(*given):
    parser = argparse.ArgumentParser()
    config.add_arguments(parser)
    return config.read_arguments(parser.parse_args(given))


def test_toml_and_command_line_mean_the_same(tmp_path):
    path = tmp_path / "race.toml"
    path.write_text(
        'precision = ["bf16", "int8_w8a8"]\ntokens = [1, 4]\nrounds = 12\nbudget-minutes = 5\n'
        "busy-ok = true\n"
        'lake = "somewhere"\n[interpreter]\nvllm = "/v/python"\n[import-path]\nvllm = ["/a", "/b"]\n'
    )

    given = arguments(
        "--precision=bf16",
        "--precision=int8_w8a8",
        "--tokens=1,4",
        "--rounds=12",
        "--budget-minutes=5",
        "--busy-ok",
        "--lake=somewhere",
        "--interpreter=vllm=/v/python",
        "--import-path=vllm=/a",
        "--import-path=vllm=/b",
    )
    assert config.read_toml(path) == given
    assert given == {
        "precision": ("bf16", "int8_w8a8"),
        "tokens": (1, 4),
        "rounds": 12,
        "budget-minutes": 5.0,
        "busy-ok": True,
        "lake": Path("somewhere"),
        "interpreter": {"vllm": "/v/python"},
        "import-path": {"vllm": ("/a", "/b")},
    }


@pytest.mark.parametrize("producer", ["race", "tune", "gate", "decode", "serve"])
def test_the_beginning_of_an_option_is_no_option(producer):
    """``--busy`` is not taken for ``--busy-ok``, nor the race's ``--device cuda`` for ``--device-index``."""
    ran = subprocess.run(
        [sys.executable, "-m", f"producers.{producer}", "--busy"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr.splitlines()[-1].rpartition(": error: ")[2]) == (
        2,
        "unrecognized arguments: --busy",
    )


def test_a_single_value_given_twice_is_the_last():
    assert arguments("--rounds=3", "--rounds=5") == {"rounds": 5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rounds = ", "is no TOML"),
        ("round = 3\nlakes = 'a'", "has unknown keys: lakes, round; known are workload"),
        ("rounds = -1", "'rounds' of .* is -1; the least is 1."),
        ("rounds = true", "'rounds' of .* is True, not a whole number."),
        ("rounds = 2.5", "'rounds' of .* is 2.5, not a whole number."),
        ("tokens = []", "'tokens' of .* is empty."),
        ("tokens = [4, 4]", "'tokens' of .* names 4 twice."),
        ("tokens = ['x']", "'tokens' of .* is 'x', not a whole number."),
        ("contestant = [3]", "'contestant' of .* has 3, which is no text."),
        ("busy-ok = 'yes'", "'busy-ok' of .* is 'yes', not true or false."),
        ("lake = 3", "'lake' of .* is 3, not a path."),
        ("baseline = ''", "'baseline' of .* is '', not a text."),
        ("routing = 'zipf-x'", "'routing' of .* has 'zipf-x'; known are uniform"),
        ("[interpreter]\nvllm = ['a', 'b']", "'interpreter' of .* names vllm twice."),
        ("[interpreter]\nvllm = 3", "'interpreter' of .* has 3, which is no text."),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path, text, sentence):
    path = tmp_path / "race.toml"
    path.write_text(text)

    with pytest.raises(UsageError, match=sentence):
        config.read_toml(path)


def test_bytes_that_are_no_text_are_no_toml(tmp_path):
    path = tmp_path / "race.toml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UsageError, match="is no TOML"):
        config.read_toml(path)


@pytest.mark.parametrize(("name", "s"), [("uniform", None), ("zipf", 1.0), ("zipf-1.2", 1.2)])
def test_routing_names_an_exponent(name, s):
    assert config.routing_exponent(name) == s


@pytest.mark.parametrize("name", ["zipf-0", "zipf-inf", "zipf-nan", "zipf--1", "balanced", "1.2"])
def test_an_unknown_routing_is_refused(name):
    with pytest.raises(ValueError, match="known are uniform"):
        config.routing_exponent(name)
