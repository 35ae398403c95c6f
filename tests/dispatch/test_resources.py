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


def test_an_interpreting_process_refuses(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.resources"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "TRITON_INTERPRET is set, so nothing is compiled: unset it.\n"
