"""The package: what it exports, what it needs, and what it says where Triton is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dispatch

ROOT = Path(__file__).parents[2]
WITHOUT_TRITON = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "triton" else real(name, *a)
import torch, dispatch
x, w13, w2 = torch.ones(2, 4), torch.ones(3, 6, 4), torch.ones(3, 4, 3)
weights, ids = dispatch.route_topk(torch.zeros(2, 3), 2)
assert dispatch.fused_moe_reference(x, w13, w2, weights, ids).shape == (2, 4)
assert dispatch.fused_moe_eager(x, w13, w2, weights, ids).shape == (2, 4)
dispatch.quantize_per_channel(w13)
bf16 = [t.bfloat16() for t in (x, w13, w2)]
assert dispatch.fused_moe(bf16[0][:0], *bf16[1:], weights[:0], ids[:0]).shape == (0, 4)
from dispatch import kernels
for call in (lambda: dispatch.fused_moe(*bf16, weights, ids), lambda: kernels.load("naive")):
    try:
        call()
    except dispatch.TritonUnavailableError as error:
        print(error)
"""
WITHOUT_DEVICE = """
import torch, dispatch
weights, ids = dispatch.route_topk(torch.zeros(2, 3), 2)
try:
    w13, w2 = torch.ones(3, 6, 4).half(), torch.ones(3, 4, 3).half()
    dispatch.fused_moe(torch.ones(2, 4).half(), w13, w2, weights, ids)
except dispatch.TritonUnavailableError as error:
    print(error)
"""


def python(program: str, **environment: str) -> list[str]:
    """Run a program in a new interpreter; its lines."""
    inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_that_is_exported_is_there_and_sorted():
    assert all(hasattr(dispatch, name) for name in dispatch.__all__)
    assert sorted(dispatch.__all__) == dispatch.__all__


def test_without_triton_everything_but_the_kernels_works_and_they_say_so():
    no_device, no_triton = python(WITHOUT_TRITON)
    assert "where no Triton kernel runs" in no_device
    assert "need Triton, which is not installed here" in no_triton


def test_without_a_device_one_sentence_says_what_to_do():
    (line,) = python(WITHOUT_DEVICE)
    assert line.startswith("x is on cpu, where no Triton kernel runs: move the tensors to a CUDA device")


def test_importing_dispatch_does_not_import_triton():
    (line,) = python("import sys, dispatch; print('triton' in sys.modules)")
    assert line == "False"
