"""Tuned fused-MoE tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.warehouse.importers.files import Warehouse, brought_in, parsed, refusals, written
from tests.warehouse.importers.other_samples import TUNED_ENTRY, TUNED_NAME
from warehouse.importers.base import FormatError


def test_the_set_of_keys_is_kept_in_its_order_with_what_has_no_column(tmp_path: Path) -> None:
    entries = {
        "24": TUNED_ENTRY,
        "triton_version": "3.5.0",
        "3": {**TUNED_ENTRY, "GROUP_SIZE_M": 8, "waves_per_eu": 2},
    }
    result = parsed(written(tmp_path, TUNED_NAME, entries), "moe-configs")
    first, second = (placed.row for placed in result.rows["tuned_configs"])
    assert (first["tokens"], second["tokens"]) == (24, 3)
    assert {row["tuned_triton_version"] for row in (first, second)} == {"3.5.0"}
    assert (first["group_size_m"], second["group_size_m"]) == (None, 8)
    assert json.loads(second["config_json"])["waves_per_eu"] == 2
    assert json.loads(first["metadata_json"]) == {"triton_version": "3.5.0"}
    names = ("experts", "n", "device", "dtype", "block_size_k", "num_stages", "loader")
    assert [first[name] for name in names] == [160, 192, "NVIDIA H200", "fp8_w8a8", 64, 3, None]


def test_an_entry_that_is_none_is_refused_by_its_key(tmp_path: Path) -> None:
    result = parsed(
        written(tmp_path, TUNED_NAME, {"1": TUNED_ENTRY, "0": TUNED_ENTRY, "-2": TUNED_ENTRY, "8": "fast"}),
        "moe-configs",
    )
    assert [placed.row["tokens"] for placed in result.rows["tuned_configs"]] == [1]
    assert refusals(result) == {
        "line 1 (byte 0), key 0": "'0' is no number of tokens",
        "line 1 (byte 0), key -2": "'-2' is no number of tokens",
        "line 1 (byte 0), key 8": "the entry is 'fast', not an object",
    }


def test_a_table_whose_name_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="known by its name"):
        parsed(written(tmp_path, "renamed.json", {"1": TUNED_ENTRY}), "moe-configs")


def test_equal_contents_under_two_names_are_two_tables_and_the_folder_names_the_version(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "triton_3_4_0"
    folder.mkdir()
    paths = [
        written(folder, name, {"1": TUNED_ENTRY, "4": TUNED_ENTRY})
        for name in (TUNED_NAME, TUNED_NAME.replace("N=192", "N=384"))
    ]
    lake = tmp_path / "lake"
    assert brought_in(lake, *paths).exit_code(allow_partial=False) == 0
    assert brought_in(lake, *paths).exit_code(allow_partial=False) == 0
    rows = Warehouse(lake).rows("FROM tuned_ranges ORDER BY n, tokens")
    assert [(row["n"], row["tokens"], row["tokens_from"], row["tokens_to"]) for row in rows] == [
        (192, 1, 1, 2),
        (192, 4, 3, None),
        (384, 1, 1, 2),
        (384, 4, 3, None),
    ]
    assert {(row["tuned_triton_version"], row["loader"]) for row in rows} == {("3.4.0", "sglang")}


def test_another_table_of_the_same_folder_is_no_tuned_table(tmp_path: Path) -> None:
    path = written(
        tmp_path, "moe_sum_reduce_NVIDIA_H200_t8_h2048.json", {"8-2048-bfloat16": {"1": TUNED_ENTRY}}
    )
    report = brought_in(tmp_path / "lake", path)
    assert report.exit_code(allow_partial=True) == 3
    (outcome,) = report.outcomes
    assert "no format recognises this JSON file (8-2048-bfloat16)" in getattr(outcome, "reason", "")
