"""`python -m producers.decode`, with a tiny model."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
import pytest

from checks.policy import load_policy
from producers.decode import __main__ as command
from producers.decode.plan import CONFIGS, REFERENCE, make_plan
from producers.errors import UsageError
from producers.models.texts import python_documentation
from tests.producers.decode.conftest import rows

TINY = [
    "--device",
    "cpu",
    "--model",
    "tiny-mixtral",
    "--prompt-tokens",
    "4",
    "--steps",
    "2",
    "--repeats",
    "1",
]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of its own, with a device lock of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the command sets it, and the next test shall not see it


def test_a_run_writes_its_lake_builds_the_warehouse_and_prints_the_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*TINY, "--config", "grouped_mm_bf16"]) == 0
    printed = capsys.readouterr().out
    assert "grouped_mm_bf16" in printed
    events = rows(tmp_path / "lake", "runs")
    assert [(e["event"], e["producer"], e["device"]) for e in events] == [
        ("started", "decode", "cpu-interpreter"),
        ("finished", "decode", "cpu-interpreter"),
    ]
    plan = json.loads(events[0]["plan_json"])
    assert plan["config"] == [REFERENCE, "grouped_mm_bf16"]
    assert (plan["prompt_tokens"], plan["steps"], plan["repeats"], plan["warm_up_steps"]) == (4, 2, 1, 1)
    (registered,) = rows(tmp_path / "lake", "policies")
    assert registered["policy_sha256"] == events[0]["policy_sha256"] == load_policy().sha256
    with duckdb.connect("warehouse.db", read_only=True) as db:
        found = db.execute("SELECT config, tokens_per_s > 0, steps FROM decode_rates WHERE status = 'timed'")
        assert sorted(found.fetchall()) == [("grouped_mm_bf16", True, 2), (REFERENCE, True, 2)]
    # One prompt for all, and its hash is of its tokens.
    assert len({row["prompt_sha256"] for row in rows(tmp_path / "lake", "decode_steps")}) == 1


def test_a_refused_configuration_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*TINY, "--no-build", "--config", "dispatch_graph_bf16"]) == 3
    assert "refused: dispatch_graph_bf16" in capsys.readouterr().err
    assert not (tmp_path / "warehouse.db").exists()
    assert {r["config"]: r["status"] for r in rows(tmp_path / "lake", "decode_configs")} == {
        REFERENCE: "passed",
        "dispatch_graph_bf16": "refused",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--config", "dispatch_bf17"], "no configuration 'dispatch_bf17' of decode; known are stock_eager"),
        (["--config", "dispatch_bf16,dispatch_bf16"], "names dispatch_bf16 twice"),
        (["--steps", "0"], "--steps is 0; the least is 1"),
        (["--repeats", "0"], "--repeats is 0; the least is 1"),
        (["--prompt-tokens", "0"], "--prompt-tokens is 0"),
        (["--budget-minutes", "0"], "--budget-minutes is 0; it must be over 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--model", "no-such-model"], "neither a model known by name"),
        (["--steps", "600"], "has positions for 512"),
        (["--device", "cuda"], "no CUDA device"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert command.main([*TINY, "--no-build", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_a_dry_run_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*TINY, "--dry-run", "--config", "fused_graph_int8_w8a8"]) == 0
    assert (
        "fused_graph_int8_w8a8: experts dispatch in int8_w8a8, layers fused, CUDA graph"
        in capsys.readouterr().out
    )
    assert list(tmp_path.iterdir()) == []


def test_the_policys_configurations_are_known_and_begin_with_the_reference() -> None:
    policy = load_policy()
    for device in ("cpu-interpreter", "NVIDIA H200"):
        named = command.required(policy, device)
        assert named[0] == REFERENCE
        assert set(named) <= set(CONFIGS)
    assert not any(CONFIGS[name].graph for name in command.required(policy, "cpu-interpreter"))


def test_the_reference_decodes_in_every_run() -> None:
    plan = make_plan(model="m", configs=["dispatch_bf16"], prompt_tokens=1, steps=1, repeats=1, seed=0)
    assert [config.name for config in plan.configs] == [REFERENCE, "dispatch_bf16"]
    with pytest.raises(UsageError):
        make_plan(model="m", configs=["nothing"], prompt_tokens=1, steps=1, repeats=1, seed=0)


def test_the_folder_of_a_checkpoint_stays_out_of_the_lake() -> None:
    plan = make_plan(
        model="/secret/place/small", configs=[REFERENCE], prompt_tokens=1, steps=1, repeats=1, seed=0
    )
    assert plan.asked["model"] == "small"


def test_the_prompt_is_pythons_documentation() -> None:
    assert python_documentation().startswith('The "assert" statement')
