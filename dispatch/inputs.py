"""Checks of a call's tensors. What passes here, every kernel can run."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dispatch.errors import InvalidInputError
from dispatch.limits import check_sizes

_NEEDED = 5  # x, w13, w2, topk_weights, topk_ids; scales and out may be None
_MATRIX = 2
_WEIGHTS = 3


def check_dense(operands: Mapping[str, object]) -> None:
    """Refuse what is no tensor, or a tensor without plain memory (sparse).

    Args:
        operands: by name; None stands for one that may be left out, except for the first five.

    Raises:
        InvalidInputError: the sentence names the operand.
    """
    for place, (name, operand) in enumerate(operands.items()):
        if operand is None and place >= _NEEDED:
            continue
        if not isinstance(operand, torch.Tensor):
            raise InvalidInputError(f"{name} is {type(operand).__name__}; it must be a torch tensor.")
        if operand.layout != torch.strided:
            raise InvalidInputError(f"{name} has layout {operand.layout}; the kernels read dense tensors.")


def check_tensors(
    x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor
) -> None:
    """Refuse shapes, types, devices and layouts that do not fit together.

    Raises:
        InvalidInputError: the sentence names the tensor.
        LimitError: a size passes the kernels' index arithmetic.
    """
    tensors = {"x": x, "w13": w13, "w2": w2, "topk_weights": topk_weights, "topk_ids": topk_ids}
    for name, tensor in tensors.items():
        dimensions = _WEIGHTS if name in {"w13", "w2"} else _MATRIX
        if tensor.ndim != dimensions:
            raise InvalidInputError(
                f"{name} has shape {_shape(tensor)}; it must have {dimensions} dimensions."
            )
        if tensor.device != x.device:
            raise InvalidInputError(f"{name} is on {tensor.device} and x on {x.device}; move them together.")
    if x.is_meta:
        raise InvalidInputError("the tensors are on the meta device, where there is no data: move them.")
    _check_shapes(x, w13, w2, topk_weights, topk_ids)
    if w2.dtype != w13.dtype:
        raise InvalidInputError(f"w13 is {w13.dtype} and w2 is {w2.dtype}; both must have one type.")
    if topk_weights.dtype != torch.float32:
        raise InvalidInputError(f"topk_weights is {topk_weights.dtype}; it must be float32.")
    if topk_ids.dtype not in {torch.int32, torch.int64}:
        raise InvalidInputError(f"topk_ids is {topk_ids.dtype}; it must be int32 or int64.")
    for name, w in (("w13", w13), ("w2", w2)):
        if w.stride(2) != 1 and w.shape[2] != 1:
            raise InvalidInputError(
                f"{name} has stride {w.stride(2)} along its last axis; the kernels read "
                "weights with a dense last axis: store the transpose, or call contiguous() once "
                "outside the hot path."
            )
    spans = {"w13": (w13.shape[1], w13.stride(1)), "w2": (w2.shape[1], w2.stride(1))}
    check_sizes(x.shape[0], topk_ids.shape[1], w13.shape[0], spans)


def _check_shapes(
    x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor
) -> None:
    tokens, hidden = x.shape
    experts, rows, _ = w13.shape
    if experts == 0 or hidden == 0 or rows == 0:
        raise InvalidInputError(f"w13 has shape {_shape(w13)}; experts, rows and columns must not be zero.")
    if w13.shape[2] != hidden:
        raise InvalidInputError(f"w13 has {w13.shape[2]} columns and x has {hidden}; both are H.")
    if rows % 2:
        raise InvalidInputError(f"w13 has {rows} rows an expert; it must be 2 I: gate rows, then up rows.")
    if w2.shape != (experts, hidden, rows // 2):
        raise InvalidInputError(
            f"w2 has shape {_shape(w2)}; with w13 {_shape(w13)} it must be "
            f"[{experts}, {hidden}, {rows // 2}]."
        )
    if topk_ids.shape[0] != tokens or topk_ids.shape[1] == 0:
        raise InvalidInputError(
            f"topk_ids has shape {_shape(topk_ids)}; it must be [{tokens}, k] with k over 0."
        )
    if topk_weights.shape != topk_ids.shape:
        raise InvalidInputError(
            f"topk_weights has shape {_shape(topk_weights)} and topk_ids {_shape(topk_ids)}; they must agree."
        )


def check_scale(name: str, scale: torch.Tensor | None, weights: torch.Tensor, int8_weights: bool) -> None:
    """Refuse a scale that does not belong to ``weights`` [E, N, K].

    Args:
        name: of the scale, for errors.
        scale: [E, N] or [E, N, 1].
        weights: what it belongs to.
        int8_weights: whether the precision has scales.

    Raises:
        InvalidInputError: missing, there without int8 weights, or of another shape, type or device.
    """
    if not int8_weights:
        if scale is not None:
            raise InvalidInputError(f"{name} is given and the weights are not int8; leave it out.")
        return
    if scale is None:
        raise InvalidInputError(f"{name} is missing; int8 weights need one scale for each output channel.")
    experts, channels, _ = weights.shape
    if tuple(scale.shape) not in {(experts, channels), (experts, channels, 1)}:
        raise InvalidInputError(
            f"{name} has shape {_shape(scale)}; it must be [{experts}, {channels}] "
            f"or [{experts}, {channels}, 1]: one scale for each output channel."
        )
    if scale.dtype != torch.float32:
        raise InvalidInputError(f"{name} is {scale.dtype}; it must be float32.")
    if scale.device != weights.device:
        raise InvalidInputError(f"{name} is on {scale.device} and the weights on {weights.device}; move it.")


def check_out(out: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse an output that does not fit ``x``.

    Raises:
        InvalidInputError: it has another shape, type or device, or its rows overlap or are not dense.
    """
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise InvalidInputError(
            f"out is {out.dtype} {_shape(out)} on {out.device}; it must be like x: "
            f"{x.dtype} {_shape(x)} on {x.device}."
        )
    rows, columns = out.shape
    if (columns > 1 and out.stride(1) != 1) or (rows > 1 and out.stride(0) < columns):
        raise InvalidInputError(
            f"out has strides {tuple(out.stride())}; its last axis must be dense "
            "and its rows must not overlap."
        )


def check_ids(topk_ids: torch.Tensor, experts: int) -> None:
    """Read the ids back and refuse the first that is E or larger. Synchronises with the host.

    Raises:
        InvalidInputError: names the id and its row. Ids under 0 are no error: they contribute nothing.
    """
    bad = torch.nonzero(topk_ids >= experts)
    if len(bad):
        row, choice = bad[0].tolist()
        raise InvalidInputError(
            f"topk_ids: id {int(topk_ids[row, choice])} in row {row} names no expert; there are {experts}, "
            f"0 to {experts - 1} (in all {len(bad)} such ids)."
        )


def _shape(tensor: torch.Tensor) -> str:
    return "[" + ", ".join(str(n) for n in tensor.shape) + "]"
