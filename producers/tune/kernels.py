"""The Triton kernels of a call, written down instead of compiled, and compiled from what was written.

Triton asks a hook before it compiles; a hook that answers True leaves the kernel out and the launch with
it. What the hook is told names everything that the compilation depends on, so another process can compile
the same kernel into the same place of Triton's cache on disk (``JITFunction.preload`` reads that format; it
wants the device in the process, and this does not).
"""

# mypy: disable-error-code="import-untyped"
from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """One kernel to compile.

    Attributes:
        module: where its function is.
        function: its qualified name there.
        specialization: what Triton tells its hooks, as JSON.
    """

    module: str
    function: str
    specialization: str

    @property
    def job_id(self) -> str:
        """The same for the same kernel."""
        text = "\0".join((self.module, self.function, self.specialization))
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@contextmanager
def written_down() -> Iterator[list[Job]]:
    """Inside, kernels that this process has not compiled are neither compiled nor launched, but listed."""
    from triton import knobs  # noqa: PLC0415 - the interpreter's processes never come here

    jobs: list[Job] = []

    def hook(*, fn: Any, compile: dict[str, Any], **_: Any) -> bool:  # noqa: A002 - Triton's name
        jobs.append(Job(fn.module, fn.name, compile["specialization_data"]))
        return True

    before = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = hook
    try:
        yield jobs
    finally:
        knobs.runtime.jit_cache_hook = before


def jobs_of(launch: Callable[[], object]) -> list[Job]:
    """The kernels that a launch would compile, each once.

    Its other work is done, on whatever its uncompiled kernels left behind: give it inputs that nobody needs.
    """
    with written_down() as jobs:
        launch()
    return list({job.job_id: job for job in jobs}.values())


def compile_job(job: Job) -> None:
    """Compile a kernel into Triton's cache; needs no device.

    Raises:
        ImportError: its module is not there.
        Exception: whatever the compiler says.
    """
    import triton  # noqa: PLC0415 - see written_down
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource, make_backend  # noqa: PLC0415

    function: Any = importlib.import_module(job.module)
    for part in job.function.split("."):
        function = getattr(function, part)
    told = json.loads(job.specialization)
    constants = {
        tuple(place): _constant(value)
        for place, value in zip(told["constant_keys"], told["constant_vals"], strict=True)
    }
    attributes = dict(zip(map(tuple, told["attrs_keys"]), told["attrs_vals"], strict=True))
    signature = {name: _tuples(kind) for name, kind in told["signature"].items()}
    target = GPUTarget(**told["target"])
    options = make_backend(target).parse_options({k: _tuples(v) for k, v in told["options"].items()})
    source = ASTSource(function, signature, constants, attributes)
    triton.compile(source, target=target, options=options.__dict__)


def _constant(value: Any) -> Any:
    import triton.language as tl  # noqa: PLC0415 - see written_down

    if isinstance(value, str) and tl.dtype.is_dtype(value):
        return tl.dtype(value)
    if isinstance(value, dict) and "constexpr" in value:
        return tl.constexpr(value["constexpr"])
    if isinstance(value, dict) and "jit_function" in value:
        module, _, name = value["jit_function"].partition(":")
        return getattr(importlib.import_module(module), name)
    return value


def _tuples(value: Any) -> Any:
    """JSON has lists where Triton had tuples; it takes no lists."""
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
