from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from checks.policy import DEFAULT_PATH, PolicyError, load_policy, parse_policy, required_rivals, values

TEXT = DEFAULT_PATH.read_text(encoding="utf-8")


def test_the_shipped_policy_is_well_formed_and_hashed_as_it_stands_on_disk() -> None:
    policy = load_policy()
    assert policy.sha256 == hashlib.sha256(DEFAULT_PATH.read_bytes()).hexdigest()
    assert (policy.min_rounds, policy.min_sessions, policy.tolerance("int8_w8a8")) == (12, 4, 0.03)


def test_a_device_that_is_not_named_has_the_default_rivals() -> None:
    policy = load_policy()
    assert policy.required("NVIDIA H200", "bf16") == ("dispatch", "vllm", "sglang", "torch-grouped")
    assert policy.required("NVIDIA B200", "bf16") == ("dispatch", "vllm", "sglang")
    assert policy.required("cpu-interpreter", "bf16") == ("dispatch", "example")
    assert policy.required("NVIDIA H200", "fp4") == ()


def test_a_precision_without_tolerance_names_those_that_have_one() -> None:
    with pytest.raises(PolicyError, match=r"'race.tolerance' has no 'fp4'; add it, or race bf16, fp16"):
        load_policy().tolerance("fp4")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version = 1", "version = 2", "'version' is 2 and must be 1"),
        (
            "min_rounds = 12",
            "min_rounds = 0",
            "'race.min_rounds' is 0 and must be a whole number of at least 1",
        ),
        ("min_rounds = 12", "min_rounds = 12.5", "'race.min_rounds' is 12.5"),
        ("min_rounds = 12", "min_rounds = true", "'race.min_rounds' is True"),
        ("min_rounds = 12", "min_round = 12", "'race.min_round' is no key of a policy"),
        ("min_rounds = 12", "", "'race.min_rounds' is missing; add it."),
        ("tie_band = 0.01", "tie_band = nan", "'race.tie_band' is nan"),
        ("tie_band = 0.01", "tie_band = '1%'", "'race.tie_band' is '1%' and must be a number from 0 to 1"),
        ("confidence = 0.99 ", "confidence = 1.0 ", "'race.confidence' is 1.0"),
        (
            "confidence_many = 0.999",
            "confidence_many = 0.9",
            "'race.confidence_many' is 0.9 and must be at least",
        ),
        ('"latest complete"', '"best"', "'race.repeat_rule' is 'best'"),
        ("[race.required.default]", "[race.required.other]", "'race.required.default' is missing"),
        ('["dispatch", "example"]', "[]", "must be a list of different names"),
        ('["dispatch", "example"]', '["example", "example"]', "must be a list of different names"),
        ("[gate]", "[gate]\nextra = 1", "'gate.extra' is no key of a policy"),
        ("version = 1", "version = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(PolicyError) as refused:
        parse_policy(TEXT.replace(old, new))
    assert says in str(refused.value)


def test_every_problem_is_named_on_a_line_of_its_own() -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(TEXT.replace("min_rounds = 12", "").replace("min_sessions = 4", "min_sessions = -1"))
    assert len(str(refused.value).splitlines()) == 2


def test_files_that_cannot_be_read_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"the policy cannot be read \(No such file"):
        load_policy(tmp_path / "nowhere.toml")
    with pytest.raises(PolicyError, match=r"the policy cannot be read \(Is a directory"):
        load_policy(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"version = 1 # \xe9")
    with pytest.raises(PolicyError, match="not UTF-8"):
        load_policy(tmp_path / "latin.toml")


def test_the_text_is_taken_apart_into_dotted_keys() -> None:
    found = dict(values(TEXT))
    assert found["race.min_rounds"] == "12"
    assert found["race.repeat_rule"] == "latest complete"
    assert found["race.floor.datasheet.NVIDIA H200.bytes_per_s"] == "4800000000000.0"
    assert found["race.required.default.bf16"] == '["dispatch", "vllm", "sglang"]'


def test_rivals_of_an_older_or_broken_policy_are_still_read() -> None:
    assert required_rivals('[race.required.X]\nbf16 = ["a", "b"]\n') == [
        ("X", "bf16", "a"),
        ("X", "bf16", "b"),
    ]
    with pytest.raises(PolicyError, match="not valid TOML"):
        required_rivals("x = = 1")
