"""Activations as int8 limbs: the error that the module states, and exact products."""

# ruff: noqa: N803, N806 - Triton spells compile-time arguments in capitals
from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from dispatch.device import device_facts
from dispatch.kernels.hopper.limbs import dot4, row_to_limbs
from dispatch.kernels.hopper.stream_products import join_limbs as join_columns
from dispatch.kernels.hopper.tiled import join_limbs as join_lines
from dispatch.kernels.hopper.tiled import tile_row

# What is not finite is multiplied and then left out: numpy warns where a device does not.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

STEPS = {1: 127, 2: 127 * 128}


@triton.jit
def limbs_kernel(
    value_ptr,
    limbs_ptr,
    scale_ptr,
    columns,
    BLOCK: tl.constexpr,
    LIMBS: tl.constexpr,
    INTERPRET: tl.constexpr,
):
    """One row a program."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    row_to_limbs(
        value_ptr + row * columns + lanes, limbs_ptr + row * LIMBS * columns + lanes, columns,
        scale_ptr + row, lanes < columns, LIMBS, INTERPRET,
    )  # fmt: skip


def to_limbs(value: torch.Tensor, limbs: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 limbs [R, limbs, K] and scales [R] of float32 rows [R, K], on the host."""
    rows, columns = value.shape
    found = torch.empty(rows, limbs, columns, dtype=torch.int8, device=device)
    scale = torch.empty(rows, device=device)
    block = triton.next_power_of_2(columns)
    interpret = device_facts(device).interpreted
    limbs_kernel[(rows,)](value.to(device), found, scale, columns, block, limbs, interpret)
    return found.cpu(), scale.cpu()


def restored(found: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float64 [R, K] that the limbs stand for."""
    wide = found.double()
    whole = wide[:, 0] if wide.shape[1] == 1 else 128 * wide[:, 0] + wide[:, 1]
    return whole * scale.double()[:, None]


def relative_error(value: torch.Tensor, limbs: int, device: torch.device) -> float:
    """Norm of the error of one row over the row's norm."""
    exact = value.double()
    return float((restored(*to_limbs(value, limbs, device)) - exact).norm() / exact.norm())


def test_worst_row_an_outlier_and_halves_of_a_step_stays_under_the_bound(device):
    """Each element but one is half a step from every limb: the error is nearly the bound."""
    columns = 2048
    bound = math.sqrt(columns) / (2 * STEPS[2])
    value = torch.full((1, columns), 0.4999)
    value[0, 0] = STEPS[2]
    error = relative_error(value, 2, device)
    assert bound == pytest.approx(1.392e-3, rel=1e-3)
    assert 0.99 * bound < error <= bound


def test_gaussian_row_is_far_closer_than_its_bfloat16(device):
    value = torch.randn(1, 2048, generator=torch.Generator().manual_seed(3))
    error = relative_error(value, 2, device)
    step = float(value.abs().max()) / STEPS[2]
    assert error == pytest.approx(step / math.sqrt(12), rel=0.05)
    assert 4e-5 < error < 8e-5
    rounded = float((value.to(torch.bfloat16).double() - value.double()).norm() / value.double().norm())
    assert rounded == pytest.approx(1.7e-3, rel=0.1)


@pytest.mark.parametrize("limbs", [1, 2])
def test_every_element_is_within_half_a_step_and_limbs_are_int8(limbs, device):
    """All integers that two limbs can hold, so that every carry from the low limb to the high one comes up."""
    value = torch.arange(-STEPS[limbs], STEPS[limbs] + 1).float()[None]
    found, scale = to_limbs(value, limbs, device)
    assert scale.item() == 1
    assert torch.equal(restored(found, scale), value.double())
    assert found.min() >= -127
    generator = torch.Generator().manual_seed(limbs)
    value = torch.randn(3, 500, generator=generator) * torch.tensor([[1e-20], [1.0], [1e20]])
    found, scale = to_limbs(value, limbs, device)
    # The reciprocal and the product round too, each by 2^-24 of up to 16256 steps.
    error = (restored(found, scale) - value.double()).abs()
    assert (error <= 0.502 * scale.double()[:, None]).all()


@pytest.mark.parametrize("limbs", [1, 2])
def test_rows_of_zeros_and_rows_that_are_not_finite(limbs, device):
    value = torch.ones(5, 6)
    value[0] = 0
    value[1, 2] = torch.nan
    value[2, 5] = torch.inf
    value[3, 0] = -torch.inf
    found, scale = to_limbs(value, limbs, device)
    assert torch.isnan(scale).tolist() == [False, True, True, True, False]
    assert scale[0] == 0
    assert not found[:4].any()
    assert found[4, 0].tolist() == [127] * 6


@triton.jit
def dot_kernel(left_ptr, right_ptr, out_ptr, COLUMNS: tl.constexpr, INTERPRET: tl.constexpr):
    lanes = tl.arange(0, COLUMNS)[None, :] + tl.arange(0, 2)[:, None] * COLUMNS
    products = dot4(tl.load(left_ptr + lanes), tl.load(right_ptr + lanes), INTERPRET)
    tl.store(out_ptr + tl.arange(0, 2), tl.sum(products, 1))


def test_groups_of_four_add_up_to_the_dot_product(device):
    left = torch.randint(-127, 128, (2, 128), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    left[0] = 127
    right = left.flip(1)
    out = torch.empty(2, dtype=torch.int32, device=device)
    dot_kernel[(1,)](left.to(device), right.to(device), out, 128, device_facts(device).interpreted)
    assert out.tolist() == (left.int() * right.int()).sum(1).tolist()


@triton.jit
def lines_kernel(out_ptr, LINES: tl.constexpr, WIDTH: tl.constexpr, LIMBS: tl.constexpr):
    """Put ``1000 row + limb`` where ``tile_row`` says, and join."""
    row, limb = tile_row(tl.arange(0, LINES), LIMBS)
    total = (row * 1000 + limb)[:, None] + tl.zeros((LINES, WIDTH), tl.int32)
    joined = join_lines(total, LINES, WIDTH, LIMBS)
    HEIGHT: tl.constexpr = LINES // LIMBS
    places = tl.arange(0, HEIGHT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out_ptr + places, joined)


@triton.jit
def columns_kernel(total_ptr, out_ptr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    places = tl.arange(0, ROWS)[:, None] * (2 * WIDTH) + tl.arange(0, 2 * WIDTH)[None, :]
    joined = join_columns(tl.load(total_ptr + places), ROWS, WIDTH, 2)
    tl.store(out_ptr + tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], joined)


@pytest.mark.parametrize("limbs", [1, 2])
def test_lines_of_tiled_are_joined_to_the_rows_that_they_were_laid_out_for(limbs, device):
    lines, width = 64, 16
    out = torch.empty(lines // limbs, width, device=device)
    lines_kernel[(1,)](out, lines, width, limbs)
    rows = torch.arange(lines // limbs) * 1000.0
    expected = rows if limbs == 1 else 128 * rows + (rows + 1)
    assert torch.equal(out.cpu(), expected[:, None].expand(-1, width))


def test_neighbouring_columns_of_stream_are_joined(device):
    total = torch.arange(16 * 32, dtype=torch.int32).reshape(16, 32)
    out = torch.empty(16, 16, device=device)
    columns_kernel[(1,)](total.to(device), out, 16, 16)
    assert torch.equal(out.cpu(), (128 * total[:, 0::2] + total[:, 1::2]).float())
