"""vLLM and SGLang as a search sees them, with stand-ins for what is looked up in the engines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from producers.contestants.sglang import Sglang, SglangTuned
from producers.contestants.tunable import Chip, Chosen, restored
from producers.contestants.tuned import Tables
from producers.contestants.vllm import Vllm, VllmTuned
from producers.failures import Failure
from producers.workloads import WORKLOADS, Cell

H200 = Chip(232_448, 132)
SHAPE = WORKLOADS["deepseek-moe-16b"]
BEST = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 16}
BEST |= {"num_warps": 8, "num_stages": 4}


def cell(tokens: int, precision: str = "bf16") -> Cell:
    sizes = (SHAPE.experts, SHAPE.top_k, SHAPE.hidden, SHAPE.intermediate)
    return Cell(f"{tokens}", SHAPE.name, *sizes, precision, "uniform", None, tokens)


class Engine:
    """An engine's module with a global configuration, whose override restores nothing after an error."""

    def __init__(self) -> None:
        self.config: Any = None
        self.seen: list[Any] = []

    @contextmanager
    def override_config(self, config: Any) -> Iterator[None]:
        old, self.config = self.config, config
        yield
        self.config = old

    def launch(self, *, fails: bool = False) -> torch.Tensor:
        self.seen.append(self.config)
        if fails:
            raise RuntimeError("out of resource: shared memory")
        return torch.zeros(1)


def vllm(engine: Engine, kind: type[Vllm] = Vllm) -> Vllm:
    found = kind.__new__(kind)
    found._package = engine  # type: ignore[assignment]
    found._facts = {}
    found._module = SimpleNamespace(  # type: ignore[assignment]
        __file__=__file__,
        get_config_file_name=lambda e, n, dtype, _: (
            f"E={e},N={n},device_name=NVIDIA_H200{f',dtype={dtype}' if dtype else ''}.json"
        ),
        get_moe_configs=lru_cache(lambda *_: None),
    )
    return found


def sglang(engine: Engine, kind: type[Sglang] = Sglang) -> Sglang:
    def file_name(
        e: int, n: int, dtype: str | None, block: Any, *, per_channel_quant: bool, down_moe: bool
    ) -> str:
        words = (f",dtype={dtype}" if dtype else "", ",per_channel_quant=True" if per_channel_quant else "")
        return f"E={e},N={n},device_name=NVIDIA_H200{''.join(words)}{'_down' if down_moe else ''}.json"

    def dtype_str(dtype: torch.dtype, *, use_int8_w8a8: bool, use_int8_w8a16: bool) -> str | None:
        return "int8_w8a8" if use_int8_w8a8 else "int8_w8a16" if use_int8_w8a16 else None

    found = kind.__new__(kind)
    found._package = engine  # type: ignore[assignment]
    found._facts = {}
    found._configs = SimpleNamespace(  # type: ignore[assignment]
        get_config_file_name=file_name,
        get_config_dtype_str=dtype_str,
        get_moe_configs=lru_cache(lambda *_, **__: None),
    )
    found._fused_moe = SimpleNamespace(try_get_optimal_moe_config=lambda: "its own lookup")  # type: ignore[assignment]
    return found


def test_an_error_inside_an_override_leaves_no_configuration_behind() -> None:
    engine = Engine()
    with pytest.raises(RuntimeError), restored(engine.override_config({"a": 1})):
        engine.launch(fails=True)
    assert engine.config is None
    with pytest.raises(RuntimeError), engine.override_config({"a": 1}):  # what it would be otherwise
        engine.launch(fails=True)
    assert engine.config == {"a": 1}


@pytest.mark.parametrize("make", [vllm, sglang])
def test_every_call_runs_under_its_own_configuration(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    contestant = make(engine)
    monkeypatch.setattr(type(contestant), "prepare", lambda *_: engine.launch)
    one, other = (
        contestant.prepare_with(cell(16), None, {**BEST, "num_stages": stages}) for stages in (3, 4)
    )
    for launch in (one, other, one):
        launch()
    assert [config["num_stages"] for config in engine.seen] == [3, 4, 3]
    assert engine.config is None


def test_a_second_product_of_its_own_takes_the_place_of_sglangs_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    contestant = sglang(engine)
    lookup = contestant._fused_moe.try_get_optimal_moe_config
    monkeypatch.setattr(
        Sglang, "prepare", lambda *_: lambda: contestant._fused_moe.try_get_optimal_moe_config((1,), M=16)
    )
    down = {**BEST, "USE_TMA": True}
    launch = contestant.prepare_with(cell(16), None, {**BEST, "down": down})
    up, (second, highest) = launch()
    assert (up, second, highest) == (BEST, down, None)
    second.pop("USE_TMA")  # as SGLang does, on a copy
    assert launch()[1][0] == down
    assert contestant._fused_moe.try_get_optimal_moe_config is lookup


def test_sglangs_neighbours_of_its_formula_have_warps_stages_and_second_products() -> None:
    formula = {name: BEST[name] for name in BEST if not name.startswith("num_")}
    found = sglang(Engine()).neighbours(cell(512), formula, H200)
    assert all({"num_warps", "num_stages"} <= set(each) for each in found)
    downs = [each["down"] for each in found if "down" in each]
    assert downs
    assert all(down["USE_TMA"] and down["BLOCK_SIZE_M"] == BEST["BLOCK_SIZE_M"] for down in downs)


def test_vllms_tables_have_a_folder_for_each_precision_and_keep_other_counts(tmp_path: Path) -> None:
    contestant = vllm(Engine())
    other = {**BEST, "num_stages": 3}
    chosen = [Chosen(cell(512), BEST), Chosen(cell(16), other), Chosen(cell(16, "int8_w8a8"), other)]
    contestant.write_tables(tmp_path, chosen, "3.7.1")
    contestant.write_tables(tmp_path, [Chosen(cell(16), BEST)], "3.7.1")
    name = "E=64,N=1408,device_name=NVIDIA_H200.json"
    bf16 = json.loads((tmp_path / "bf16" / name).read_text(encoding="utf-8"))
    assert bf16 == {"triton_version": "3.7.1", "16": BEST, "512": BEST}
    assert list(bf16) == ["triton_version", "16", "512"]
    assert json.loads((tmp_path / "int8_w8a8" / name).read_text(encoding="utf-8"))["16"] == other
    contestant.write_tables(tmp_path, [Chosen(cell(1), BEST)], "3.8.0")  # tuned on other code: begun anew
    assert set(json.loads((tmp_path / "bf16" / name).read_text(encoding="utf-8"))) == {"triton_version", "1"}


def test_sglangs_tables_have_a_folder_for_the_triton_version_and_both_products(tmp_path: Path) -> None:
    down = {**BEST, "USE_TMA": True}
    chosen = [Chosen(cell(512, "int8_w8a8"), {**BEST, "down": down}), Chosen(cell(16, "int8_w8a8"), BEST)]
    files = sglang(Engine()).write_tables(tmp_path, chosen, "3.7.1")
    stem = "E=64,N=1408,device_name=NVIDIA_H200,dtype=int8_w8a8,per_channel_quant=True"
    assert [path.relative_to(tmp_path).as_posix() for path in files] == [
        f"configs/triton_3_7_1/{stem}.json",
        f"configs/triton_3_7_1/{stem}_down.json",
    ]
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in files)
    assert first == {"16": BEST, "512": BEST}
    assert second == {"16": BEST, "512": down}


def test_tuned_contestants_point_their_engine_at_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = cell(16, "int8_w8a16")
    seen: list[Any] = []
    for make, kind, variable, folder in (
        (vllm, VllmTuned, "VLLM_TUNED_CONFIG_FOLDER", tmp_path / "int8_w8a16"),
        (sglang, SglangTuned, "SGLANG_MOE_CONFIG_DIR", tmp_path),
    ):
        monkeypatch.setenv(variable, "nowhere")
        contestant: Any = make(Engine(), kind)
        contestant._tables = Tables("engine", str(tmp_path))
        monkeypatch.setattr(kind.__mro__[1], "prepare", lambda *_: seen.append(None))
        lookup = (contestant._module if make is vllm else contestant._configs).get_moe_configs
        lookup(64, 1408, "stale")
        with pytest.raises(Failure, match=r"no tuned file .* run python -m producers.tune") as refused:
            contestant.prepare(asked, None)
        assert refused.value.reason_code == "not-installed"
        contestant.write_tables(tmp_path, [Chosen(asked, BEST)], triton.__version__)
        contestant.prepare(asked, None)
        assert os.environ[variable] == str(folder)
        assert lookup.cache_info().currsize == 0  # vLLM and SGLang remember that there was no file
    assert len(seen) == 2
