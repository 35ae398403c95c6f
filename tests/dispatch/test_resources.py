"""The kernels compile for Hopper and Ampere without a GPU, and fit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compiled(*arguments: str) -> list[dict[str, object]]:
    """Compile kernels in a process that does not interpret."""
    knobs = pytest.importorskip("triton").knobs
    if not Path(knobs.nvidia.ptxas.path).is_file() and shutil.which("ptxas") is None:
        pytest.skip("there is no ptxas")
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.resources", "--json", *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["naive", "persistent"])
@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8_w8a16", "int8_w8a8"])
def test_every_kernel_compiles_for_hopper_without_spilling(precision, kernel):
    found = compiled("--kernel", kernel, "--precision", precision, "--tokens", "1", "512", "2048")
    assert len(found) == 3 * (6 if precision == "int8_w8a8" else 4)
    products = [each for each in found if each["kernel"] in {"gate_up_kernel", "down_kernel"}]
    assert {each["matrix_unit"] for each in products} == {"wgmma"}
    assert all(each["spill_bytes"] == 0 for each in found), found
    assert all(each["shared_bytes"] <= 232448 for each in found)


# A family is compiled at token counts at which ``auto`` takes it, and that give it each of its default tiles.
HOPPER = {"vector": ("1",), "stream": ("4", "64", "256"), "tiled": ("2048",)}
# The second kernel of vector keeps one 8-byte value in local memory, outside its loops.
SPILLED = {("vector", "int8_w8a8", "down_kernel"): 8}


@pytest.mark.slow
@pytest.mark.parametrize("family", HOPPER)
@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8_w8a16", "int8_w8a8"])
def test_every_hopper_family_compiles_with_wgmma_and_without_spilling(precision, family):
    found = compiled("--kernel", family, "--precision", precision, "--tokens", *HOPPER[family])
    names = {"vector": ["gate_up_kernel", "down_kernel"]}.get(
        family, ["plan_kernel", "gate_up_kernel", "down_kernel", "combine_kernel"]
    )
    if family == "tiled" and precision.startswith("int8"):
        names = [*names[:2], "to_limbs_kernel", *names[2:]]
    assert [each["kernel"] for each in found] == names * len(HOPPER[family])
    products = [each for each in found if each["kernel"] in {"gate_up_kernel", "down_kernel"}]
    assert {each["matrix_unit"] for each in products} == {"none" if family == "vector" else "wgmma"}
    for each in found:
        assert each["spill_bytes"] <= SPILLED.get((family, precision, each["kernel"]), 0), each
    assert all(each["shared_bytes"] <= 232448 for each in found)


@pytest.mark.slow
def test_the_kernels_compile_for_ampere():
    found = compiled("--device", "a100", "--kernel", "naive", "--tokens", "1", "2048")
    assert {each["precision"] for each in found} == {"bf16", "fp16", "int8_w8a16", "int8_w8a8"}
    assert all(each["shared_bytes"] <= 166912 for each in found)


def test_one_kernel_is_read_out(tmp_path, monkeypatch):
    """A fresh cache, so that the compiler itself runs."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = compiled("--kernel", "naive", "--precision", "bf16", "--tokens", "1")
    names = [each["kernel"] for each in found]
    assert names == ["schedule_kernel", "gate_up_kernel", "down_kernel", "combine_kernel"]
    assert found[1]["shared_bytes"] == 147456
    assert 32 < found[1]["registers"] <= 255


def test_a_hopper_family_is_read_out():
    """A product of a call of few tokens runs on the matrix unit: weights are its first operand."""
    found = compiled("--kernel", "stream", "--precision", "bf16", "--tokens", "16")
    assert [each["kernel"] for each in found] == [
        "plan_kernel",
        "gate_up_kernel",
        "down_kernel",
        "combine_kernel",
    ]
    assert [each["matrix_unit"] for each in found] == ["none", "wgmma", "wgmma", "none"]
    assert {each["spill_bytes"] for each in found} == {0}


def test_an_interpreting_process_refuses(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.resources"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "TRITON_INTERPRET is set, so nothing is compiled: unset it.\n"
