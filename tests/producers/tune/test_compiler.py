"""Kernels written down in one process and compiled in others, without a device; jobs that go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from producers.tune import compiler, pool
from producers.tune.compiler import Compiler
from producers.tune.kernels import Job
from producers.tune.pool import Pool

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 60.0

# Everything that a specialization can hold: types, functions, None, a one, alignment, options.
TOY = """
import triton
import triton.language as tl

@triton.jit
def twice(x):
    return x + x

@triton.jit
def toy(x, nothing, out, size, one, KIND: tl.constexpr, FN: tl.constexpr, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * one, mask=at < size).to(KIND)
    if FLAG:
        value = FN(value)
    tl.store(out + at, value, mask=at < size)
"""
# Triton launches nothing without a driver; this one names a target and has no device.
CALLER = """
import json, sys
from dataclasses import asdict
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

class NoDevice:
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def is_active(self): return True

driver.set_active(NoDevice())
import toy_kernels
from producers.tune.kernels import compile_job, jobs_of

x, out = torch.empty(64, device="meta"), torch.empty(64, dtype=torch.bfloat16, device="meta")

def launch(size=64):
    arguments = (x, None, out, size, 1, tl.bfloat16, toy_kernels.twice, 32, True)
    return toy_kernels.toy[(2,)](*arguments, num_warps=2, num_stages=3)
"""


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], str]:
    """Run code where kernels are compiled, with a module of a kernel and an empty cache."""
    (tmp_path / "toy_kernels.py").write_text(TOY, encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = os.pathsep.join([str(ROOT), str(tmp_path)])
    env = {**inherited, "PYTHONPATH": paths, "TRITON_CACHE_DIR": str(tmp_path / "cache")}

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", CALLER + code],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_what_was_compiled_elsewhere_is_found_at_the_launch(python: Callable[[str], str]) -> None:
    jobs = json.loads(
        python("""
jobs = jobs_of(lambda: (launch(), launch(), launch(7)))
for job in jobs:
    compile_job(type(job)(**json.loads(json.dumps(asdict(job)))))
print(json.dumps([asdict(job) for job in jobs]))
""")
    )
    # The size 7 is another kernel: it is no multiple of 16. The second launch of 64 is not.
    assert [(job["module"], job["function"]) for job in jobs] == [("toy_kernels", "toy")] * 2
    said = python("""
from triton import knobs
from triton.runtime.jit import JITFunction
hits = []
knobs.compilation.listener = lambda *, src, cache_hit, **_: hits.append(cache_hit)
run = JITFunction.run
JITFunction.run = lambda self, *a, grid, warmup, **k: run(self, *a, grid=grid, warmup=True, **k)
launch(), launch(7), launch(1 << 40)
print(hits)
""")
    assert said.strip() == "[True, True, False]"


def job(module: str = "math", function: str = "f", text: str = "") -> Job:
    return Job(module, function, text)


def finished(running: Compiler) -> dict[Job, str | None]:
    ended: dict[Job, str | None] = {}
    deadline = time.monotonic() + WAIT_S
    while running.busy:
        assert time.monotonic() < deadline
        ended.update(running.step())
        time.sleep(0.005)
    return ended


def test_a_crash_is_an_error_and_a_failure_is_left_to_the_launch(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def compile_job(job: Job) -> None:
        if job.function == "raises":
            raise ValueError("no such layout")
        if job.function == "crashes":
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(compiler, "compile_job", compile_job)
    running = Compiler(2)
    for function in ("f", "raises", "crashes", "g"):
        running.add(job(function=function), urgent=False)
    running.add(job(module="no_such_module_anywhere"), urgent=False)
    ended = {(each.module, each.function): error for each, error in finished(running).items()}
    assert ended == {
        ("math", "f"): None,
        ("math", "raises"): None,
        ("math", "crashes"): "the compiler ended with SIGKILL",
        ("math", "g"): None,
        ("no_such_module_anywhere", "f"): None,
    }
    log = capfd.readouterr().err
    assert "ValueError: no such layout" in log
    assert "No module named 'no_such_module_anywhere'" in log


def test_a_job_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compile_job", lambda _: time.sleep(WAIT_S))
    monkeypatch.setattr(compiler, "LONGEST_COMPILATION_S", 0.1)
    running = Compiler(1)
    running.add(job(), urgent=False)
    assert finished(running) == {job(): "the compiler took over 0 s"}


def test_urgent_jobs_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compile_job", lambda _: None)
    running = Compiler(1)
    for name, urgent in (("a", False), ("b", False), ("now", True)):
        running.add(job(function=name), urgent=urgent)
    assert [each.function for each in finished(running)] == ["now", "a", "b"]


def test_a_pool_compiles_each_job_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(
        "import os, signal\nclass Kernels:\n"
        "    def __getattr__(self, name): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def __getattr__(name):\n"
        "    return Kernels()\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    crashing, fine = Job("crashing", "any.thing", "{}"), Job("json", "dumps", "no specialization")
    compilers = Pool(1)
    assert compilers.done([crashing.job_id])  # nobody asked for it: its launch compiles it
    compilers.submit([crashing, crashing, fine], urgent=False)
    assert not compilers.done([crashing.job_id, fine.job_id])
    deadline = time.monotonic() + WAIT_S
    while not compilers.done([crashing.job_id, fine.job_id]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert compilers.error([fine.job_id, crashing.job_id]) == "the compiler ended with SIGKILL"
    assert compilers.error([fine.job_id]) is None


def test_a_compiler_that_does_not_start_leaves_everything_to_the_launches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no process")

    monkeypatch.setattr(pool.subprocess, "Popen", refuse)
    compilers = Pool(1)
    compilers.submit([job()], urgent=True)
    deadline = time.monotonic() + WAIT_S
    while not compilers.done([job().job_id]):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert compilers.error([job().job_id]) is None
