"""How far the kernels' index arithmetic reaches, as pure functions.

The kernels compute row and expert offsets in 64 bits. What stays in 32 bits, because it sits in the
inner loop, is the offset inside one expert's matrix; slot numbers and tile numbers are 32 bits as well.
"""

from __future__ import annotations

from dispatch.errors import LimitError

INT32_MAX = 2**31 - 1
# CUDA's limit of the first grid dimension, the only one that the kernels use.
MAX_GRID = 2**31 - 1
# The schedule holds one histogram of all experts per program.
MAX_EXPERTS = 4095


def passes_int32(count: int, stride: int) -> bool:
    """Whether the last element of ``count`` rows of ``stride`` elements lies beyond a 32-bit offset.

    The rows are dense: the last offset is ``count * stride - 1``. Limits are a matter of the product,
    never of the number of tokens alone.
    """
    return count * stride - 1 > INT32_MAX


def check_grid(programs: int, kernel: str) -> int:
    """``programs``, if a grid can have as many.

    Raises:
        LimitError: it cannot.
    """
    if programs > MAX_GRID:
        raise LimitError(
            f"{kernel}: the launch needs {programs} programs and a grid holds {MAX_GRID}; split the tokens."
        )
    return programs


def check_sizes(tokens: int, top_k: int, experts: int, expert_strides: dict[str, tuple[int, int]]) -> None:
    """Refuse what the kernels' 32-bit indices cannot address.

    Args:
        tokens: M.
        top_k: k.
        experts: E.
        expert_strides: for each weight tensor by name (rows of one expert, row stride in elements).

    Raises:
        LimitError: too many slots or experts, or one expert's matrix is too large.
    """
    if tokens * top_k > INT32_MAX:
        raise LimitError(
            f"topk_ids: {tokens} tokens x top-{top_k} are more slots than 32-bit indices "
            "hold; split the tokens."
        )
    if experts > MAX_EXPERTS:
        raise LimitError(f"w13: {experts} experts, and the schedule holds at most {MAX_EXPERTS}.")
    for name, (rows, stride) in expert_strides.items():
        if passes_int32(rows, stride):
            raise LimitError(
                f"{name}: one expert spans {rows} rows x {stride} elements, past the 32-bit offset inside an "
                "expert; use a denser layout or split the intermediate size."
            )
