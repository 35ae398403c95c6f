"""Correct before fast: how an output is judged, and how stale memory is kept from looking right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from producers.failures import Failure

# Three nets beside the policy's tolerance on the relative (Frobenius) error, all in multiples of it.
# A token may be worse than the whole by this factor; catches one wrong row among thousands.
ROW_FACTOR = 4.0
# An element is a mismatch when it is off by more than this factor x tolerance x the reference's RMS:
# far outside the tail of an error that is within tolerance, also in rows whose router weights are uneven.
ELEMENT_FACTOR = 8.0
# Share of mismatching elements that is still taken for a tail; catches a wrong column in a wide output.
MAX_MISMATCH_SHARE = 1e-3
# Repeated calls that differ in bits may differ by this share of the tolerance (implementations with atomics).
REPEAT_FRACTION = 0.25

_CHECKSUM_CHUNK = 1 << 22
_SMALL_BLOCKS, _SMALL_BLOCK_BYTES = (
    16,
    1 << 20,
)  # the caching allocator serves up to 1 MiB from its small pool
_LEAST_POISON_BYTES = 64 << 20
_LARGEST_FREE_SHARE = 4  # poison at most a quarter of the free memory


@dataclass(frozen=True)
class Judgement:
    """An output beside the float32 reference.

    Attributes:
        relative_error: ||out - ref|| / ||ref|| (Frobenius); the norm of the difference where ref is zero.
        max_abs_error: largest |out - ref|.
        mismatch_share: share of elements with |out - ref| > ELEMENT_FACTOR x tolerance x rms(ref).
        worst_row: largest ||out_m - ref_m|| / max(||ref_m||, rms of the row norms).
        finite: whether every element of the output is.
    """

    relative_error: float
    max_abs_error: float
    mismatch_share: float
    worst_row: float
    finite: bool

    def columns(self) -> dict[str, Any]:
        """The columns of ``verdicts``; None instead of a number that is none."""
        names = ("relative_error", "max_abs_error", "mismatch_share")
        return {name: getattr(self, name) if self.finite else None for name in names}

    def failure(self, tolerance: float) -> Failure | None:
        """Why the output is refused under ``tolerance``; None if it is right."""
        if not self.finite:
            return Failure("nan-output", "the output holds NaN or infinity")
        if self.relative_error > tolerance:
            detail = f"relative error {self.relative_error:.3g} is over the tolerance {tolerance:g}"
            return Failure("wrong-output", detail)
        if self.worst_row > ROW_FACTOR * tolerance:
            detail = (
                f"a token's relative error {self.worst_row:.3g} is over {ROW_FACTOR:g} x the tolerance "
                f"{tolerance:g}"
            )
            return Failure("wrong-output", detail)
        if self.mismatch_share > MAX_MISMATCH_SHARE:
            detail = (
                f"{self.mismatch_share:.3g} of the elements are off by over {ELEMENT_FACTOR:g} x the "
                f"tolerance {tolerance:g} x the reference's RMS"
            )
            return Failure("wrong-output", detail)
        return None


def check_form(output: object, reference: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuse an output of another kind, shape, type or place than asked for.

    Raises:
        Failure: ``wrong-output``.
    """
    if not isinstance(output, torch.Tensor):
        raise Failure("wrong-output", f"the launch returned {type(output).__name__} instead of a tensor")
    if output.shape != reference.shape or output.dtype != dtype or output.device != reference.device:
        raise Failure(
            "wrong-output",
            f"the output is {list(output.shape)} {output.dtype} on {output.device}, asked for was "
            f"{list(reference.shape)} {dtype} on {reference.device}",
        )


def judge(output: torch.Tensor, reference: torch.Tensor, tolerance: float) -> Judgement:
    """Compare an output [M, H] with its float32 reference [M, H], in float32 (norms in float64)."""
    finite = bool(torch.isfinite(output).all())
    if not finite:
        return Judgement(0.0, 0.0, 0.0, 0.0, finite=False)
    difference = output.float() - reference
    rows, reference_rows = (
        torch.linalg.vector_norm(t, dim=1, dtype=torch.float64) for t in (difference, reference)
    )
    norm = torch.linalg.vector_norm(reference_rows)
    error = torch.linalg.vector_norm(rows)
    rms_row = norm / max(reference.shape[0], 1) ** 0.5
    rms = float(norm) / max(reference.numel(), 1) ** 0.5
    absolute = difference.abs()
    floor = torch.finfo(torch.float64).tiny
    return Judgement(
        relative_error=float(error / norm) if float(norm) > 0 else float(error),
        max_abs_error=float(absolute.max()),
        mismatch_share=float((absolute > ELEMENT_FACTOR * tolerance * rms).double().mean()),
        worst_row=float((rows / torch.clamp(reference_rows, min=float(rms_row)).clamp(min=floor)).max()),
        finite=True,
    )


def repeatability(outputs: list[torch.Tensor], reference: torch.Tensor, tolerance: float) -> str:
    """``bitwise`` if all outputs agree in every bit, else ``tolerance`` if they are close, else ``no``.

    Close: ||out - first|| <= REPEAT_FRACTION x tolerance x ||ref||.
    """
    first, *others = outputs
    if all(_bits_equal(first, other) for other in others):
        return "bitwise"
    limit = REPEAT_FRACTION * tolerance * float(torch.linalg.vector_norm(reference))
    spread = max(float(torch.linalg.vector_norm(other.float() - first.float())) for other in others)
    return "tolerance" if spread <= limit else "no"


def _bits_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


class Unchanged:
    """Notices writes into tensors without a copy of them: a position-weighted checksum, on their device.

    The checksum is the sum over 32-bit words of word x (position + 1) modulo 2^64, so that a permutation
    (repacking in place) shows as well. Bytes that do not fill a word are taken singly.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = dict(tensors)
        self._before = {name: checksum(tensor) for name, tensor in self._tensors.items()}

    def check(self) -> None:
        """Compare with the state at construction.

        Raises:
            Failure: ``input-modified``, naming the tensors.
        """
        changed = [name for name, tensor in self._tensors.items() if checksum(tensor) != self._before[name]]
        if changed:
            raise Failure("input-modified", f"the contestant wrote into {', '.join(changed)}")


def checksum(tensor: torch.Tensor) -> int:
    """Position-weighted sum of a tensor's words modulo 2^64 (see :class:`Unchanged`)."""
    octets = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = octets.numel() // 4 * 4
    words = octets[:whole].view(torch.int32) if whole else octets[:0].to(torch.int32)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    position = 1
    for part in (*torch.split(words, _CHECKSUM_CHUNK), octets[whole:]):
        weights = torch.arange(position, position + part.numel(), dtype=torch.int64, device=tensor.device)
        total += (part.to(torch.int64) * weights).sum()
        position += part.numel()
    return int(total)


def poison_bytes(workspace_bytes: int, device: torch.device) -> int:
    """How much memory to poison so that ``workspace_bytes`` of new allocations fall into it."""
    wanted = max(_LEAST_POISON_BYTES, workspace_bytes)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return min(wanted, free // _LARGEST_FREE_SHARE)
    return min(wanted, _LEAST_POISON_BYTES)


def poison(size_bytes: int, device: torch.device, *, fresh: bool = True) -> None:
    """Fill memory with NaN and free it, so that the next ``torch.empty`` hands it out.

    On CUDA the caching allocator first gives back its free blocks (``fresh``), then one large block and
    sixteen small ones are taken, filled and freed: what is allocated next is cut out of them. On a CPU this
    is best effort: small blocks come back through the C library's free lists, large ones are new zero pages.
    """
    if fresh and device.type == "cuda":
        torch.cuda.empty_cache()
    blocks = [_nan_block(size_bytes, device)] if device.type == "cuda" else []
    sizes = [_SMALL_BLOCK_BYTES] if device.type == "cuda" else [1 << n for n in range(6, 18)]
    blocks += [_nan_block(size, device) for size in sizes for _ in range(_SMALL_BLOCKS)]
    del blocks


def _nan_block(size_bytes: int, device: torch.device) -> torch.Tensor:
    # 0xFF in every byte is a NaN in bfloat16, float16 and float32 alike, and -1 as an integer.
    return torch.full((size_bytes,), 0xFF, dtype=torch.uint8, device=device)


def fill_nan(output: torch.Tensor) -> None:
    """Overwrite an output, so that a launch that writes nothing is seen."""
    output.fill_(float("nan"))
