"""The kernels of the fused step compile for cards that are not here, and keep their weights in registers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# A process of its own: here kernels may be interpreted, and what is interpreted is not compiled.
SCRIPT = """
import json, sys
from types import SimpleNamespace
from unittest import mock
import torch
from transformers import StaticCache
from dispatch import resources
from dispatch.decode import FusedStep
from dispatch.integration import deepseek

torch.set_grad_enabled(False)
facts = resources.DEVICES[sys.argv[1]]
sizes = dict(vocab_size=1024, hidden_size=2048, intermediate_size=10944, moe_intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=16, n_shared_experts=2, n_routed_experts=8,
    num_experts_per_tok=6, first_k_dense_replace=1, norm_topk_prob=False)
model = deepseek.build(sizes, seed=0, device="cpu")
cache = StaticCache(config=model.config, max_cache_len=16)
cache.early_initialization(1, 16, 128, torch.bfloat16, torch.device("cpu"))
token = torch.zeros((1, 1), dtype=torch.int64)
with mock.patch("dispatch.decode.step.device_facts", lambda device: facts), mock.patch(
    "dispatch.decode.step.fused_moe"), resources._recorded() as launches:
    FusedStep(model, cache)(token, token, torch.zeros(1024, dtype=torch.bfloat16))
problem = SimpleNamespace(device=facts)
found = [resources._compile(kernel, arguments, problem) for kernel, arguments in launches]
print(json.dumps([(one.kernel, one.registers, one.spill_bytes) for one in found]))
"""
ATTENTION = ["linear_kernel", "attend_kernel", "linear_kernel"]


@pytest.mark.slow
@pytest.mark.parametrize("card", ["h200", "a100"])
def test_every_launch_of_a_step_compiles_without_spills(card: str) -> None:
    ptxas = pytest.importorskip("triton").knobs.nvidia.ptxas.path
    if not Path(ptxas).is_file() and shutil.which("ptxas") is None:
        pytest.skip("there is no ptxas")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, card],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    dense = ["linear_kernel", "linear_kernel"]
    routed = ["linear_kernel", "choose_kernel"]
    assert [name for name, _, _ in found] == [*ATTENTION, *dense, *ATTENTION, *routed, "linear_kernel"]
    assert all(spilled == 0 for _, _, spilled in found)
    assert max(registers for _, registers, _ in found) <= 128  # four programs of a multiprocessor at once
