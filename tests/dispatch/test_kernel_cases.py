"""Shapes and ids that broke fused MoE kernels elsewhere: zero tokens, one hot expert, odd sizes, NaN, limits.

Each has the sizes of the report it comes from. Where those take the interpreter minutes, the default run has
fewer tokens or a smaller matrix, and the full size runs on a GPU (marker ``gpu``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from dispatch import InvalidInputError, out_of_range_flag
from dispatch.limits import passes_int32
from tests.dispatch.inputs import Inputs, make


@dataclass(frozen=True)
class Case:
    """Sizes of a report, and the smaller ones that the interpreter gets."""

    tokens: int
    hidden: int
    intermediate: int
    experts: int
    top_k: int
    ids: Callable[[int], list[list[int]]] | None = None
    interpreted: tuple[int, int, int] | None = None  # tokens, hidden, intermediate

    def make(self, device: torch.device, *, full: bool) -> Inputs:
        """Draw the inputs."""
        sizes = (self.tokens, self.hidden, self.intermediate)
        tokens, hidden, intermediate = sizes if full or self.interpreted is None else self.interpreted
        ids = None if self.ids is None else torch.tensor(self.ids(tokens), dtype=torch.int32)
        return make(tokens, hidden, intermediate, self.experts, self.top_k, device=device, ids=ids)


MINUS_ONE = [[0, 1], [-1, -1], [2, 3], [-1, 4], [5, -1], [-1, -1], [6, 7], [0, 0]]
CASES = {
    "zero_tokens": Case(0, 2048, 768, 128, 8),
    "one_token": Case(1, 4096, 14336, 8, 2, interpreted=(1, 512, 1792)),
    "all_to_one": Case(512, 2048, 768, 128, 1, lambda m: [[7]] * m, interpreted=(96, 1024, 384)),
    "hot_pair": Case(512, 2048, 768, 128, 2, lambda m: [[0, 127]] * m, interpreted=(48, 1024, 384)),
    "minus_one_rows": Case(8, 256, 128, 8, 2, lambda _: MINUS_ONE),
    "all_minus_one": Case(4, 256, 128, 8, 2, lambda m: [[-1, -1]] * m),
    "id_too_large": Case(2, 256, 128, 8, 1, lambda _: [[8], [0]]),
    "repeated_id_in_row": Case(4, 256, 128, 8, 2, lambda m: [[3, 3]] * m),
    "odd_dims": Case(33, 511, 176, 5, 2),
    "experts_not_pow2": Case(64, 512, 192, 257, 9, interpreted=(4, 512, 192)),
    "topk_equals_E": Case(16, 256, 128, 4, 4),
    "strided_rows": Case(64, 512, 256, 8, 2),
    "strided_cols": Case(64, 512, 256, 8, 2),
    "nan_in_unrouted_expert": Case(16, 256, 128, 8, 1, lambda m: [[2]] * m),
    "nan_workspace": Case(16, 256, 128, 8, 2),
}
# (rows, stride of a row in elements, whether the last offset passes 32 bits)
PREDICATES = {
    "int32_output_first_bad": (131073 * 8, 2048, True),
    "int32_output_last_ok": (131072 * 8, 2048, False),
    "int32_deepseek": (56000 * 8, 7168, True),
    "int32_weight_side": (512, 8388608, True),
}


def run_case(name: str, kernel: str, device: torch.device, *, full: bool) -> None:
    """Run one case and judge it."""
    inputs = CASES[name].make(device, full=full)
    if name == "strided_rows":
        inputs = inputs.with_(x=inputs.x.repeat_interleave(2, dim=0)[::2])
    elif name == "strided_cols":
        inputs = inputs.with_(x=torch.cat([inputs.x, inputs.x.flip(0)], dim=1)[:, :512])
    elif name == "nan_in_unrouted_expert":
        inputs.w13[5] = torch.nan
    elif name == "id_too_large":
        with pytest.raises(InvalidInputError, match="id 8 in row 0 names no expert; there are 8"):
            inputs.run(kernel, validate=True)
    result = inputs.run(kernel)
    if name in {"zero_tokens", "all_minus_one"}:
        assert result.shape == inputs.x.shape
        assert not result.any()
        return
    inputs.check(result)
    assert out_of_range_flag(device).item() == (name == "id_too_large")


@pytest.mark.parametrize("name", CASES)
def test_case(name, device):
    """The cases alternate between the kernels, which share all but the walk over tiles."""
    run_case(name, "naive" if len(name) % 2 else "persistent", device, full=False)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kernel", ["naive", "persistent", "auto"])
def test_case_at_full_size(kernel, name, device):
    run_case(name, kernel, device, full=True)


@pytest.mark.parametrize("experts", [5, 60, 160, 257])
def test_any_number_of_experts_is_scheduled_whole(experts, device):
    inputs = make(2, 32, 16, experts, 3, device=device, seed=experts)
    inputs.check(inputs.run())


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates_of_32_bit_offsets(name):
    rows, stride, passes = PREDICATES[name]
    assert passes_int32(rows, stride) is passes


def test_every_shared_case_is_here_with_its_sizes(shared_cases: Path):
    found = json.loads((shared_cases / "repro" / "12_kernel_cases.json").read_text(encoding="utf-8"))
    assert {case["id"] for case in found["cases"]} == {*CASES, *PREDICATES}
    for case in found["cases"]:
        if case["id"] in PREDICATES:
            rows = case["M"] * case["topk"] if "M" in case else case["E"]
            stride = case.get("row_stride") or case["expert_stride"]
            assert PREDICATES[case["id"]][:2] == (rows, stride)
        else:
            ours = CASES[case["id"]]
            sizes = (ours.tokens, ours.hidden, ours.intermediate, ours.experts, ours.top_k)
            assert sizes == tuple(case[key] for key in ("M", "H", "I", "E", "topk"))
