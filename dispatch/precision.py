"""The number formats that every kernel runs."""

from __future__ import annotations

from enum import StrEnum

import torch

from dispatch.errors import InvalidInputError


class Precision(StrEnum):
    """What weights are stored as and what the matrix products are computed in.

    ``int8_w8a16``: int8 weights with a float32 scale per output channel, 16-bit activations.
    ``int8_w8a8``: the same weights, activations quantised per row, int8 products summed in int32.
    """

    BF16 = "bf16"
    FP16 = "fp16"
    INT8_W8A16 = "int8_w8a16"
    INT8_W8A8 = "int8_w8a8"

    @property
    def int8_weights(self) -> bool:
        """Whether the weights are int8 with scales."""
        return self in {Precision.INT8_W8A16, Precision.INT8_W8A8}

    @property
    def int8_activations(self) -> bool:
        """Whether activations are quantised per row before each product."""
        return self is Precision.INT8_W8A8


_OF_DTYPE = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}


def resolve_precision(
    precision: Precision | str | None, activations: torch.dtype, weights: torch.dtype
) -> Precision:
    """The precision of a call: the one that is named, or the one that the types leave no doubt about.

    Raises:
        InvalidInputError: unknown name, types that contradict it, or int8 weights without a name.
    """
    known = ", ".join(Precision)
    if activations not in _OF_DTYPE:
        raise InvalidInputError(f"x is {_name(activations)}; the kernels take bfloat16 or float16.")
    if precision is None:
        if weights == torch.int8:
            raise InvalidInputError(
                "precision: int8 weights run as int8_w8a16 or int8_w8a8, "
                "and the types do not say which; name one."
            )
        if weights != activations:
            raise InvalidInputError(
                f"w13 is {_name(weights)} and x is {_name(activations)}; both must have one type, "
                "or the weights must be int8."
            )
        return _OF_DTYPE[activations]
    try:
        named = Precision(precision)
    except ValueError:
        raise InvalidInputError(f"precision '{precision}' is unknown; known are {known}.") from None
    wanted = torch.int8 if named.int8_weights else activations
    if weights != wanted or (not named.int8_weights and _OF_DTYPE[activations] is not named):
        raise InvalidInputError(
            f"precision {named}: x is {_name(activations)} and w13 is {_name(weights)}; "
            f"it needs {'int8 weights' if named.int8_weights else f'{named} in both'}."
        )
    return named


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
