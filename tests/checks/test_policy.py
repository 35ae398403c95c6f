"""The policy: what the shipped file says, and a sentence for every way of getting it wrong."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from checks.policy import DEFAULT_PATH, PolicyError, load_policy, parse_policy, required_rivals, values

TEXT = DEFAULT_PATH.read_text(encoding="utf-8")


def edited(old: str, new: str) -> str:
    """The shipped policy with one place changed."""
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


def test_the_hash_is_that_of_the_bytes_on_disk():
    policy = load_policy()

    assert policy.sha256 == hashlib.sha256(DEFAULT_PATH.read_bytes()).hexdigest()
    assert policy.text.encode() == DEFAULT_PATH.read_bytes()


def test_line_ends_are_part_of_the_hash(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())

    policy = load_policy(path)

    assert policy.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() != load_policy().sha256


@pytest.mark.parametrize(
    ("device", "precision", "rivals"),
    [
        ("NVIDIA H200", "bf16", ("dispatch", "vllm", "sglang", "torch-grouped")),
        ("NVIDIA H200", "int8_w8a8", ("dispatch", "vllm", "sglang")),
        ("cpu-interpreter", "bf16", ("dispatch", "example")),
        ("a card that nobody named", "bf16", ("dispatch", "vllm", "sglang")),
        ("NVIDIA H200", "fp4", ()),  # a named device does not fall back to 'default'
    ],
)
def test_required_rivals_of_a_device(device: str, precision: str, rivals: tuple[str, ...]):
    assert load_policy().required(device, precision) == rivals


def test_an_unknown_precision_has_no_tolerance():
    assert load_policy().tolerance("int8_w8a8") == 0.03
    with pytest.raises(PolicyError, match=r"'race.tolerance' has no 'fp4'; add it, or race bf16, fp16"):
        load_policy().tolerance("fp4")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("min_rounds = 12 ", "min_rounds = 'twelve' ", "'race.min_rounds' is 'twelve' and must be a whole number"),
        ("min_rounds = 12 ", "min_rounds = true ", "'race.min_rounds' is True and must be a whole number"),
        ("min_rounds = 12 ", "min_round = 12 ", "'race.min_round' is no key of a policy"),
        ("min_rounds = 12 ", "min_round = 12 ", "'race.min_rounds' is missing; add it."),
        ("tie_band = 0.01 ", "tie_band = nan ", "'race.tie_band' is nan and must be a number from 0 to 1."),
        ("confidence = 0.99 ", "confidence = 1.0 ", "'race.confidence' is 1.0 and must be a number between 0"),
        ("confidence_many = 0.999 ", "confidence_many = 0.9 ", "must be at least 'race.confidence', 0.99."),
        ("bytes_per_s = 4.8e12", "bytes_per_s = inf", "bytes_per_s' is inf and must be a number above 0."),
        ("[race.required.default] ", "[race.required.others] ", "'race.required.default' is missing"),
        ('"latest complete"', '"best"', "'race.repeat_rule' is 'best' and must be 'latest complete'"),
        ("version = 1", "version = 2", "'version' is 2 and must be 1."),
        ("version = 1", "version 1", "policy: not valid TOML ("),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(old: str, new: str, sentence: str):
    with pytest.raises(PolicyError) as caught:
        parse_policy(edited(old, new))

    assert sentence in str(caught.value)


def test_rivals_are_different_names():
    text = TEXT.replace('["dispatch", "example"]', '["dispatch", "dispatch"]', 1)

    with pytest.raises(PolicyError, match=r"cpu-interpreter.bf16' is .* must be a list of different names"):
        parse_policy(text)


def test_every_problem_has_a_line_of_its_own():
    text = edited("min_rounds = 12 ", "min_rounds = 0 ").replace("tie_band = 0.01 ", "tie_band = -1 ")

    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "policy.toml")

    lines = str(caught.value).splitlines()
    assert [line.split("'")[1] for line in lines] == ["race.min_rounds", "race.tie_band"]
    assert all(line.startswith("policy.toml: ") for line in lines)


def test_an_absent_file_and_one_in_another_encoding(tmp_path: Path):
    with pytest.raises(PolicyError, match="the policy cannot be read"):
        load_policy(tmp_path / "policy.toml")
    (tmp_path / "policy.toml").write_bytes(b"version = 1 # \xe4")
    with pytest.raises(PolicyError, match=r"the policy is not UTF-8 \(byte 14\)"):
        load_policy(tmp_path / "policy.toml")


def test_values_and_rivals_of_a_policy_of_another_version():
    text = '[race]\nnew_rule = "x"\nmin_rounds = 3\n[race.required."NVIDIA H200"]\nbf16 = ["a", "b"]\n'

    assert values(text) == [
        ("race.new_rule", "x"),
        ("race.min_rounds", "3"),
        ("race.required.NVIDIA H200.bf16", '["a", "b"]'),
    ]
    assert required_rivals(text) == [("NVIDIA H200", "bf16", "a"), ("NVIDIA H200", "bf16", "b")]
    with pytest.raises(PolicyError, match="not valid TOML"):
        values("[race")


def test_nothing_heavy_is_imported():
    code = "import json, sys, checks.policy; print(json.dumps(list(sys.modules)))"
    root = str(Path(__file__).parents[2])

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)

    heavy = {"torch", "duckdb", "pyarrow", "pandas", "polars", "numpy", "great_expectations", "typer"}
    assert not heavy & {name.split(".")[0] for name in json.loads(done.stdout)}
