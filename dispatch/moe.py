"""The fused mixture-of-experts operation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from dispatch import kernels
from dispatch.config import MoeConfig, Problem, check_tiles
from dispatch.device import capturing, device_facts, out_of_range_flag
from dispatch.errors import CaptureError, ConfigError, InvalidInputError
from dispatch.inputs import check_dense, check_ids, check_out, check_scale, check_tensors
from dispatch.kernels.call import Call, Replay
from dispatch.kernels.family import MoeTensors
from dispatch.precision import Precision, resolve_precision

if TYPE_CHECKING:
    from dispatch.kernels.compiled import Kernels
    from dispatch.kernels.family import Family

_log = logging.getLogger("dispatch")


@dataclass(frozen=True)
class Plan:
    """What a call runs: which kernels, with which tiles, and why.

    Attributes:
        problem: shape and device.
        kernel: the family, never ``auto``.
        config: its tiles and where they came from.
        launches: kernel launches of one call.
    """

    problem: Problem
    kernel: str
    config: MoeConfig
    launches: int


@dataclass
class _Prepared:
    plan: Plan
    family: Family
    out_of_range: torch.Tensor
    kernels: Kernels = field(default_factory=dict)
    replay: Replay | None = None


_Operands = tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor | None,
    torch.Tensor | None,
]

# Calls that ran before, by everything that a launch depends on: each needs no new decision, and its kernels
# are compiled.
_prepared: dict[Hashable, _Prepared] = {}
_logged: set[Problem] = set()
# The oldest is forgotten then; a server sees prompts of every length.
_MOST_PREPARED = 16384
_observers: list[Callable[[Plan], None]] = []


def fused_moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    kernel: str = "auto",
    precision: Precision | str | None = None,
    w13_scale: torch.Tensor | None = None,
    w2_scale: torch.Tensor | None = None,
    validate: bool = False,
    out: torch.Tensor | None = None,
    config: MoeConfig | None = None,
) -> torch.Tensor:
    """``y[t] = sum_j topk_weights[t, j] * w2[e] @ (silu(gate) * up)``, ``[gate; up] = w13[e] @ x[t]``.

    Results are bitwise repeatable. Under CUDA-graph capture a call does nothing on the host; call once with
    the same shapes before, so that its kernels are compiled.

    Args:
        x: [M, H] bfloat16 or float16. Rows may lie any stride apart; a last axis that is not dense is copied.
        w13: [E, 2 I, H], gate rows first, then up rows; the type of x, or int8.
        w2: [E, H, I]; the type of w13.
        topk_weights: [M, k] float32.
        topk_ids: [M, k] int32 or int64. Ids under 0 contribute nothing. Ids of E and above are dropped too
            and set :func:`dispatch.out_of_range_flag`, unless ``validate``. Repeated ids in a row add up.
        kernel: ``naive``, ``persistent`` or ``auto``.
        precision: see :class:`dispatch.Precision`; needed with int8 weights, else the types say it.
        w13_scale: [E, 2 I] or [E, 2 I, 1] float32, with int8 weights.
        w2_scale: [E, H] or [E, H, 1] float32, with int8 weights.
        validate: read the ids back first and raise for one of E or above. Synchronises with the host.
        out: [M, H] of the type of x to write into; it may be x itself.
        config: tiles to run with, in place of the chosen ones: for ``naive`` and ``persistent``, which take
            any; the other kernels have tiles of their own shape.

    Returns:
        [M, H] in the type of x: ``out``, or a new tensor.

    Raises:
        InvalidInputError: a tensor does not fit; an id is out of range (``validate``).
        ConfigError: ``config`` has tiles that no kernel takes, or that this kernel does not.
        UnsupportedError: no kernel runs this; LimitError: a size is past 32-bit indices.
        TritonUnavailableError: no Triton, or tensors where it does not run.
        CaptureError: the first call with these shapes is under capture.
    """
    operands = (x, w13, w2, topk_weights, topk_ids, w13_scale, w2_scale)
    try:
        # Everything that the checks, the choice of tiles and Triton's compiler look at. A call that was made
        # before is not checked again: the host's time is a large part of a short call.
        key = (kernel, precision, config, _layout(out), *map(_layout, operands))
        wants_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in operands[:4])
    except (AttributeError, RuntimeError):  # asked for only here, so that good calls pay nothing
        names = ("x", "w13", "w2", "topk_weights", "topk_ids", "w13_scale", "w2_scale", "out")
        check_dense(dict(zip(names, (*operands, out), strict=True)))
        raise
    if wants_gradient:
        raise InvalidInputError(
            "fused_moe has no backward pass and an input requires a gradient: call it under torch.no_grad()."
        )
    known = prepared = _prepared.get(key)
    if prepared is None:
        check_tensors(x, w13, w2, topk_weights, topk_ids)
        resolved = resolve_precision(precision, x.dtype, w13.dtype)
        check_scale("w13_scale", w13_scale, w13, resolved.int8_weights)
        check_scale("w2_scale", w2_scale, w2, resolved.int8_weights)
        if out is not None:
            check_out(out, x)
    if validate:
        _validate(topk_ids, w13.shape[0])
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.shape[0] == 0:
        return out
    if prepared is None:
        prepared = _prepare(x, w13, topk_ids, resolved, kernel, config)
    elsewhere = x.is_cuda and x.device.index != torch.cuda.current_device()
    with torch.cuda.device(x.device) if elsewhere else nullcontext():
        _run(prepared, operands, out)
    if known is None:
        if len(_prepared) >= _MOST_PREPARED:
            del _prepared[next(iter(_prepared))]
        _prepared[key] = prepared
    for observer in _observers:
        observer(prepared.plan)
    return out


def _run(prepared: _Prepared, operands: _Operands, out: torch.Tensor) -> None:
    """Enqueue: by the launches of an earlier call of this layout, or by the family, which notes them down."""
    x, w13, w2, topk_weights, topk_ids, w13_scale, w2_scale = operands
    flag = prepared.out_of_range
    replay = prepared.replay
    if replay is not None and not replay.profiled:
        replay((*operands, flag, out))
        return
    tensors = MoeTensors(
        x=x if x.stride(1) == 1 else x.contiguous(),
        w13=w13,
        w2=w2,
        topk_weights=topk_weights.contiguous(),
        topk_ids=topk_ids.contiguous(),
        w13_scale=None if w13_scale is None else w13_scale.contiguous(),
        w2_scale=None if w2_scale is None else w2_scale.contiguous(),
        out_of_range=flag,
        out=out,
    )
    call = Call(prepared.kernels, x.device)
    prepared.family.run(tensors, prepared.plan.problem, prepared.plan.config, call)
    if replay is None:
        prepared.replay = call.replay((*operands, flag, out))


@contextmanager
def observe(observer: Callable[[Plan], None]) -> Iterator[None]:
    """Call ``observer`` with the plan of every :func:`fused_moe` whose kernels were enqueued, in this block.

    A call without tokens enqueues none. Under CUDA-graph capture a call is seen once, at the capture; a
    replay runs no Python and is not seen.
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def explain(
    *,
    tokens: int,
    top_k: int,
    experts: int,
    hidden: int,
    intermediate: int,
    precision: Precision | str,
    device: torch.device | str,
    kernel: str = "auto",
) -> Plan:
    """What :func:`fused_moe` would run for a shape: kernel, tiles, where they came from, launches.

    Args:
        tokens: M.
        top_k: k.
        experts: E.
        hidden: H.
        intermediate: I.
        precision: see :class:`dispatch.Precision`.
        device: where; under the interpreter any.
        kernel: as for :func:`fused_moe`.

    Raises:
        InvalidInputError: unknown kernel or precision.
        UnsupportedError, TritonUnavailableError: as for :func:`fused_moe`.
    """
    try:
        named = Precision(precision)
    except ValueError:
        raise InvalidInputError(
            f"precision '{precision}' is unknown; known are {', '.join(Precision)}."
        ) from None
    facts = device_facts(torch.device(device))
    problem = Problem(tokens, top_k, experts, hidden, intermediate, named, facts)
    return _plan(problem, kernel)[0]


def _plan(problem: Problem, kernel: str, config: MoeConfig | None = None) -> tuple[Plan, Family]:
    family = kernels.choose(problem, kernel)
    if config is None:
        config = family.configure(problem)
    elif family.name not in kernels.ANY_TILES:
        raise ConfigError(
            f"config: kernel '{family.name}' has tiles of a shape of its own; "
            f"name one of {', '.join(kernels.ANY_TILES)}, or leave config out."
        )
    else:
        check_tiles(config, problem)
    return Plan(problem, family.name, config, family.launches(problem)), family


def _prepare(
    x: torch.Tensor,
    w13: torch.Tensor,
    topk_ids: torch.Tensor,
    precision: Precision,
    kernel: str,
    config: MoeConfig | None,
) -> _Prepared:
    if capturing(x.device):
        raise CaptureError(
            f"fused_moe: the first call with x {tuple(x.shape)}, kernel '{kernel}', {precision} is under "
            "CUDA-graph capture, where its kernels would have to be compiled: call it once before capturing."
        )
    experts, rows, hidden = w13.shape
    device = device_facts(x.device)
    problem = Problem(x.shape[0], topk_ids.shape[1], experts, hidden, rows // 2, precision, device)
    plan, family = _plan(problem, kernel, config)
    if problem not in _logged:
        _logged.add(problem)
        used = plan.config
        _log.info(
            "%d tokens, top-%d of %d experts, %d x %d, %s on %s: kernel %s, tiles from %s%s",
            problem.tokens,
            problem.top_k,
            problem.experts,
            problem.hidden,
            problem.intermediate,
            problem.precision,
            problem.device.name,
            plan.kernel,
            used.source,
            f" ({used.detail})" if used.detail else "",
        )
    return _Prepared(plan, family, out_of_range_flag(x.device))


def _layout(tensor: torch.Tensor | None) -> Hashable:
    """What of a tensor decides whether it fits, what is compiled for it and how it is launched."""
    if tensor is None:
        return None
    return (tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.data_ptr() % 16)


def _validate(topk_ids: torch.Tensor, experts: int) -> None:
    if capturing(topk_ids.device):
        raise CaptureError(
            "validate=True reads the ids on the host, which a CUDA graph cannot capture: leave it out and "
            "read dispatch.out_of_range_flag after the replay."
        )
    check_ids(topk_ids, experts)
