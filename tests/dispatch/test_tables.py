"""Measured tiles: found by device, chosen by tokens, refused when malformed."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import Any

import pytest

from dispatch import ConfigError, tables
from dispatch.config import DeviceFacts, MoeConfig, Problem, TileConfig
from dispatch.precision import Precision

SMALL, TALL = TileConfig(16, 64, 128, 4, 4, swap_ab=True), TileConfig(128, 128, 64, 8, 3, group_m=4)


def document(**changes: Any) -> dict[str, Any]:
    """Make a table with tiles for 16 and 2048 tokens."""
    tokens = {str(n): {"gate_up": asdict(t), "down": asdict(t)} for n, t in ((2048, TALL), (16, SMALL))}
    entry = {"kernel": "naive", "precision": "bf16", "experts": 64, "top_k": 6, "hidden": 2048}
    entry |= {"intermediate": 1408, "tokens": tokens}
    return {"device": "h200", "triton_version": "3.7.1", "entries": [entry], **changes}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Put a table for the H200 in place of the shipped ones."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(tables, "_triton_version", lambda: "3.7.1")
    tables.load.cache_clear()
    path = tmp_path / "h200.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    yield path
    tables.load.cache_clear()


def configure(tokens: int, device: str = "NVIDIA H200", intermediate: int = 1408) -> MoeConfig:
    """Ask for the tiles of a call of the default workload."""
    facts = DeviceFacts(device, (9, 0), 132)
    problem = Problem(tokens, 6, 64, 2048, intermediate, Precision.BF16, facts)
    return tables.configure(problem, "naive")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200"),
        ("NVIDIA H200 MIG 1g.18gb", "h200"),
        ("NVIDIA-H200-SXM-141GB", "h200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla V100-PCIE-16GB", "v100"),
        ("NVIDIA GeForce RTX 4090", "geforce_rtx_4090"),
        ("", "unknown"),
    ],
)
def test_variants_of_a_chip_share_a_name(name, expected):
    assert tables.normalise_device(name) == expected


@pytest.mark.usefixtures("table")
def test_a_measured_count_is_taken_on_every_variant_of_the_device():
    for device in ("NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H200 MIG 1g.18gb"):
        config = configure(16, device)
        assert (config.gate_up, config.source, config.tuned_triton_version) == (SMALL, "tuned", "3.7.1")


@pytest.mark.usefixtures("table")
def test_between_two_counts_the_cheaper_neighbour_is_taken_and_there_is_one_change():
    sources = [configure(tokens) for tokens in range(17, 2048, 13)]
    assert {config.source for config in sources} == {"interpolated"}
    heights = [config.block_m for config in sources]
    assert (heights[0], heights[-1]) == (16, 128)
    assert heights == sorted(heights)
    # Log-nearest would be 181 tokens, where an expert has 17 rows.
    change = next(t for t, config in zip(range(17, 2048, 13), sources, strict=True) if config.block_m == 128)
    assert 100 < change < 500


@pytest.mark.usefixtures("table")
def test_far_from_what_was_measured_the_model_decides():
    assert configure(8).source == "interpolated"
    assert configure(7).source == "model"
    assert configure(4096).source == "interpolated"
    assert configure(4097).source == "model"
    assert configure(16, intermediate=1400).source == "model"
    assert configure(16, "NVIDIA H100 80GB HBM3").source == "model"


@pytest.mark.usefixtures("table")
def test_another_triton_version_is_reported_and_used(monkeypatch, caplog):
    monkeypatch.setattr(tables, "_triton_version", lambda: "3.6.0")
    with caplog.at_level(logging.WARNING, logger="dispatch"):
        assert configure(16).source == "tuned"
        configure(16)
    (record,) = caplog.records
    assert "h200.json was measured under Triton 3.7.1 and this is 3.6.0" in record.getMessage()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "h200.json: Expecting property name"),
        ("[]", "h200.json: list indices"),
        (json.dumps({"triton_version": "3.7.1"}), "h200.json: the field 'entries' is missing"),
        (json.dumps(document(entries=[{}])), "the field 'kernel' is missing"),
        (json.dumps(document()).replace('"block_n": 64', '"block_n": 65'), "16 tokens: .* not powers of two"),
        (
            json.dumps(document()).replace('"block_n": 64', '"block_l": 64'),
            "unexpected keyword argument 'block_l'",
        ),
        (json.dumps(document()).replace('"block_m": 16', '"block_m": 32', 1), "need one block_m"),
    ],
)
def test_a_malformed_table_is_refused_with_its_name(text, sentence, table):
    table.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=sentence):
        configure(16)


def test_shipped_tables_can_be_read():
    for path in tables.FOLDER.glob("*.json"):
        assert tables.normalise_device(path.stem) == path.stem
        assert tables.parse(path.read_text(encoding="utf-8"), path.name).entries


def problem_of(tokens: int, precision: str = "bf16") -> Problem:
    device = DeviceFacts("NVIDIA H200 NVL", (9, 0), 132)
    return Problem(tokens, 6, 64, 2048, 1408, Precision(precision), device)


def test_tuned_tiles_are_merged_into_a_table_and_read_back() -> None:
    short, tall = MoeConfig(SMALL, SMALL, "tuned"), MoeConfig(TALL, TALL, "tuned")
    merged: dict[str, Any] = {}
    for tokens, precision, config in (
        (2048, "bf16", short), (16, "bf16", short), (2048, "bf16", tall), (16, "int8_w8a8", tall),
    ):  # fmt: skip
        merged = tables.merge(merged, "stream", problem_of(tokens, precision), config, "3.7.1")
    assert merged["device"] == "h200"
    table = tables.parse(json.dumps(merged), "h200.json")
    assert table.triton_version == "3.7.1"
    bf16 = table.entries["stream", "bf16", 64, 6, 2048, 1408]
    assert bf16 == {
        16: (SMALL, SMALL),
        2048: (TALL, TALL),
    }  # the later choice for 2048 took the earlier's place
    assert table.entries["stream", "int8_w8a8", 64, 6, 2048, 1408] == {16: (TALL, TALL)}


def test_tiles_of_another_triton_version_are_left_behind() -> None:
    config = MoeConfig(SMALL, SMALL, "tuned")
    old = tables.merge({}, "stream", problem_of(16), config, "3.6.0")
    new = tables.merge(old, "stream", problem_of(64), config, "3.7.1")
    assert new["triton_version"] == "3.7.1"
    assert list(new["entries"][0]["tokens"]) == ["64"]
