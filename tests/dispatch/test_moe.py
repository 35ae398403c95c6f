"""The operation against its definition, over kernels, precisions, layouts and ids."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dispatch
from dispatch import CaptureError, InvalidInputError, Precision, fused_moe, moe, out_of_range_flag
from tests.dispatch.inputs import make

KERNELS = ["naive", "persistent"]


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_computes_the_definition_in_every_precision(kernel, precision, device):
    """Sizes that no tile divides, several row tiles an expert, and one expert without rows."""
    ids = torch.stack([torch.arange(21) % 2, 3 + torch.arange(21) % 2], dim=1).to(torch.int32)
    inputs = make(21, 150, 44, 5, 2, precision, device=device, ids=ids)
    inputs.check(inputs.run(kernel))


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_are_bitwise_repeatable(kernel, device):
    inputs = make(19, 64, 32, 6, 3, "int8_w8a8", device=device)
    first = inputs.run(kernel)
    assert all(torch.equal(first, inputs.run(kernel)) for _ in range(2))


def test_which_program_computes_a_tile_changes_nothing(device):
    inputs = make(19, 64, 48, 6, 3, device=device)
    assert torch.equal(inputs.run("naive"), inputs.run("persistent"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("precision", ["bf16", "int8_w8a8"])
def test_nothing_reads_what_the_call_did_not_write(kernel, precision, device, monkeypatch):
    """Workspaces start as NaN, or as the largest integer where they hold numbers of rows."""
    ids = torch.tensor([[0, -1], [-1, -1], [3, 0], [9, 1]], dtype=torch.int32)
    inputs = make(4, 48, 40, 5, 2, precision, device=device, ids=ids)
    clean = inputs.run(kernel)
    empty, new_empty = torch.empty, torch.Tensor.new_empty
    monkeypatch.setattr(torch, "empty", lambda *a, **k: _poison(empty(*a, **k)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: _poison(new_empty(*a, **k)))
    assert torch.isnan(torch.empty(2)).all()
    poisoned = inputs.run(kernel)
    monkeypatch.undo()
    assert torch.equal(clean, poisoned)
    inputs.check(poisoned)


def _poison(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.fill_(float("nan") if tensor.is_floating_point() else torch.iinfo(tensor.dtype).max)


# --- ids


def test_negative_ids_contribute_nothing(device):
    ids = torch.tensor([[0, 1], [-1, -1], [2, -1], [-1, 4]], dtype=torch.int32)
    inputs = make(4, 48, 40, 5, 2, device=device, ids=ids)
    result = inputs.run(validate=True)
    inputs.check(result)
    assert not result[1].any()
    assert result[[0, 2, 3]].any(dim=1).all()
    assert out_of_range_flag(device).item() == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_too_large_are_dropped_and_set_the_flag(kernel, dtype, device):
    """5, 6 and 7 are the numbers between E and the next power of two, which a schedule might know."""
    ids = torch.tensor([[5, 0], [6, 7], [1, 2]], dtype=dtype)
    inputs = make(3, 48, 40, 5, 2, device=device, ids=ids)
    result = inputs.run(kernel)
    inputs.check(result)
    assert not result[1].any()
    flag = out_of_range_flag(device)
    assert flag.item() == 1
    flag.zero_()
    inputs.with_(topk_ids=ids.clamp(max=4).to(device)).run(kernel)
    assert flag.item() == 0


def test_a_64_bit_id_is_not_cut_to_a_valid_one(device):
    ids = torch.tensor([[2**32 + 1, 0], [1, -(2**32)]], dtype=torch.int64)
    inputs = make(2, 48, 40, 5, 2, device=device, ids=ids)
    inputs.check(inputs.run())
    assert out_of_range_flag(device).item() == 1


def test_validate_names_the_id_and_its_row(device):
    ids = torch.tensor([[0, 1], [2, 3], [4, 77]], dtype=torch.int32)
    inputs = make(3, 48, 40, 5, 2, device=device, ids=ids)
    with pytest.raises(ValueError, match=r"id 77 in row 2 names no expert; there are 5"):
        inputs.run(validate=True)


def test_an_id_twice_in_a_row_adds_up(device):
    inputs = make(4, 48, 40, 5, 2, device=device, ids=torch.full((4, 2), 3, dtype=torch.int32))
    inputs.check(inputs.run())


def test_nan_of_an_expert_or_a_token_stays_where_it_is(device):
    inputs = make(6, 48, 40, 5, 2, device=device, ids=torch.tensor([[0, 1]] * 6, dtype=torch.int32))
    inputs.w13[4] = torch.nan
    inputs.w2[2] = torch.inf
    inputs.check(inputs.run())
    inputs.x[3, 7] = torch.nan
    result = inputs.run()
    assert torch.isnan(result[3]).all()
    others = [0, 1, 2, 4, 5]
    torch.testing.assert_close(result[others].double(), inputs.reference()[others], rtol=0.05, atol=0.02)


def test_a_token_that_is_not_finite_cannot_pass_for_a_finite_one_in_int8(device):
    inputs = make(3, 48, 40, 5, 2, "int8_w8a8", device=device)
    inputs.x[1, 0] = torch.inf
    result = inputs.run()
    assert torch.isnan(result[1]).all()
    assert torch.isfinite(result[[0, 2]]).all()


# --- layouts


def test_zero_tokens_return_at_once_without_a_launch(device, monkeypatch):
    inputs = make(0, 48, 40, 5, 2, device=device)
    monkeypatch.setattr(dispatch.kernels, "choose", lambda *_: pytest.fail("a kernel was chosen"))
    for kernel in (*KERNELS, "auto"):
        result = inputs.run(kernel, validate=True)
        assert (result.shape, result.dtype) == ((0, 48), torch.bfloat16)


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a8"])
@pytest.mark.parametrize("layout", ["row slice", "column slice", "transposed", "one row for all"])
def test_strides_of_x_are_honoured(layout, precision, device):
    inputs = make(6, 48, 40, 5, 2, precision, device=device)
    x = inputs.x
    if layout == "row slice":
        strided = torch.stack([x, torch.full_like(x, torch.nan)], dim=1).reshape(12, 48)[::2]
    elif layout == "column slice":
        strided = torch.cat([x, torch.full_like(x, torch.nan)], dim=1)[:, :48]
    elif layout == "transposed":
        strided = x.T.contiguous().T
    else:
        strided = x[:1].expand(6, 48)
    assert not strided.is_contiguous()
    inputs = inputs.with_(x=strided)
    inputs.check(inputs.run())


@pytest.mark.parametrize("precision", ["bf16", "int8_w8a16"])
def test_strides_of_weights_are_honoured(precision, device):
    inputs = make(6, 48, 40, 5, 2, precision, device=device)
    dense = inputs.run()

    def padded(w: torch.Tensor) -> torch.Tensor:
        wide = torch.full((w.shape[0] * 2, w.shape[1] + 1, w.shape[2] + 8), 100).to(w.dtype).to(device)
        view = wide[::2, 1:, : w.shape[2]]
        view.copy_(w)
        return view

    changed = inputs.with_(w13=padded(inputs.w13), w2=padded(inputs.w2))
    assert torch.equal(dense, changed.run())


def test_weights_without_a_dense_last_axis_are_refused(device):
    inputs = make(6, 48, 40, 5, 2, device=device)
    swapped = inputs.w2.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(InvalidInputError, match="w2 has stride 48 along its last axis"):
        inputs.with_(w2=swapped).run()


def test_scales_come_with_or_without_a_last_axis_of_one(device):
    inputs = make(6, 48, 40, 5, 2, "int8_w8a16", device=device)
    flat = inputs.run()
    column = inputs.with_(w13_scale=inputs.w13_scale[..., None], w2_scale=inputs.w2_scale[..., None])
    assert torch.equal(flat, column.run())


def test_out_is_written_and_may_be_x_or_have_longer_rows(device):
    inputs = make(6, 48, 40, 5, 2, device=device)
    expected = inputs.run()
    wide = torch.full((6, 64), 7.0, dtype=torch.bfloat16, device=device)
    assert inputs.run(out=wide[:, :48]).data_ptr() == wide.data_ptr()
    assert torch.equal(wide[:, :48], expected)
    assert (wide[:, 48:] == 7).all()
    own = inputs.x.clone()
    inputs.with_(x=own).run(out=own)
    assert torch.equal(own, expected)


def test_router_weights_and_ids_need_not_be_contiguous(device):
    inputs = make(6, 48, 40, 5, 2, device=device)
    expected = inputs.run()
    changed = inputs.with_(
        topk_weights=inputs.topk_weights.T.contiguous().T, topk_ids=inputs.topk_ids.T.contiguous().T
    )
    assert torch.equal(expected, changed.run())


@pytest.mark.parametrize("which", ["x", "w13", "w2"])
def test_offsets_past_2_to_the_31_are_reached(which, device, sparse_memory):
    """The last row or expert lies beyond a 32-bit offset; only what is touched takes memory."""
    inputs = make(3, 32, 16, 3, 1, device=device, ids=torch.tensor([[2], [0], [1]], dtype=torch.int32))
    tensor = getattr(inputs, which)
    distance = 2**30 + 8
    far = sparse_memory(2 * distance + tensor[0].numel()).as_strided(
        tensor.shape, (distance, *tensor.stride()[1:])
    )
    for place in range(3):
        far[place] = tensor[place]
    changed = inputs.with_(**{which: far})
    assert torch.equal(inputs.run(), changed.run())


@pytest.fixture
def sparse_memory(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> Any:
    """A maker of large bfloat16 buffers whose pages exist only where they are written."""
    if device.type == "cpu":
        # The interpreter copies whole storages back onto themselves, which would touch every page.
        from triton.runtime.interpreter import GridExecutor

        monkeypatch.setattr(GridExecutor, "_restore_args_dev", lambda *_: None)
    return lambda elements: torch.empty(elements, dtype=torch.bfloat16, device=device)


# --- refusals and reports


def test_gradients_are_refused_and_allowed_to_be_off(device):
    inputs = make(2, 48, 40, 5, 2, device=device)
    inputs.w13.requires_grad_()
    with pytest.raises(InvalidInputError, match="no backward pass"):
        inputs.run()
    with torch.no_grad():
        inputs.run()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("x", None, "x is NoneType; it must be a torch tensor"),
        ("topk_ids", [[0, 1]], "topk_ids is list; it must be a torch tensor"),
        ("w13_scale", 1.0, "w13_scale is float; it must be a torch tensor"),
        ("out", "out", "out is str; it must be a torch tensor"),
        ("w2", torch.zeros(3, 64, 32, dtype=torch.bfloat16).to_sparse(), r"w2 has layout torch\.sparse_coo"),
    ],
    ids=["None", "list", "number", "text", "sparse"],
)
def test_what_is_no_dense_tensor_is_refused_by_name(name, value, sentence, device):
    inputs = make(4, 64, 32, 3, 2, device=device)
    operands = {n: getattr(inputs, n) for n in ("x", "w13", "w2", "topk_weights", "topk_ids")}
    with pytest.raises(InvalidInputError, match=sentence):
        fused_moe(**{**operands, name: value})


def test_tensors_without_data_are_refused():
    inputs = make(4, 64, 32, 3, 2, device=torch.device("cpu"))
    operands = {n: getattr(inputs, n) for n in ("x", "w13", "w2", "topk_weights", "topk_ids")}
    with pytest.raises(InvalidInputError, match="meta device, where there is no data"):
        fused_moe(**{name: tensor.to("meta") for name, tensor in operands.items()})


def test_the_first_call_under_capture_is_refused_and_a_known_one_is_not(device, monkeypatch):
    inputs = make(2, 56, 40, 5, 2, device=device)
    monkeypatch.setattr(moe, "capturing", lambda _: True)
    with pytest.raises(CaptureError, match="call it once before capturing"):
        inputs.run()
    with pytest.raises(CaptureError, match="out_of_range_flag after the replay"):
        inputs.run(validate=True)
    monkeypatch.undo()
    expected = inputs.run()
    monkeypatch.setattr(moe, "capturing", lambda _: True)
    assert torch.equal(expected, inputs.run())
    with pytest.raises(CaptureError):
        make(3, 56, 40, 5, 2, device=device).run()


def test_one_log_line_says_where_a_shape_s_tiles_come_from(device, caplog):
    inputs = make(2, 72, 40, 5, 2, device=device)
    with caplog.at_level(logging.INFO, logger="dispatch"):
        inputs.run("naive")
        inputs.run("naive")
    (record,) = caplog.records
    assert "2 tokens, top-2 of 5 experts, 72 x 40, bf16" in record.getMessage()
    assert "kernel naive, tiles from" in record.getMessage()


def test_explain_says_what_runs(device):
    plan = dispatch.explain(
        tokens=3,
        top_k=2,
        experts=5,
        hidden=48,
        intermediate=40,
        precision="int8_w8a8",
        device=device,
        kernel="persistent",
    )
    assert (plan.kernel, plan.launches, plan.problem.precision) == ("persistent", 6, Precision.INT8_W8A8)
    with pytest.raises(InvalidInputError, match="'int4' is unknown; known are bf16, fp16"):
        dispatch.explain(
            tokens=3, top_k=2, experts=5, hidden=48, intermediate=40, precision="int4", device=device
        )


def test_an_unknown_kernel_is_refused_with_the_known_ones(device):
    with pytest.raises(
        InvalidInputError, match=r"kernel 'fast' is unknown; known are naive, persistent.*auto"
    ):
        make(2, 48, 40, 5, 2, device=device).run("fast")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_small_problem_is_computed(device, data):
    tokens = data.draw(st.integers(1, 9), "tokens")
    experts = data.draw(st.integers(1, 7), "experts")
    top_k = data.draw(st.integers(1, 4), "top_k")
    hidden = data.draw(st.integers(1, 70), "hidden")
    intermediate = data.draw(st.integers(1, 40), "intermediate")
    precision = data.draw(st.sampled_from(["bf16", "fp16", "int8_w8a16"]), "precision")
    kernel = data.draw(st.sampled_from([*KERNELS, "auto"]), "kernel")
    ids = data.draw(
        st.lists(st.integers(-2, experts + 2), min_size=tokens * top_k, max_size=tokens * top_k), "ids"
    )
    chosen = torch.tensor(ids, dtype=torch.int32).reshape(tokens, top_k)
    inputs = make(tokens, hidden, intermediate, experts, top_k, precision, device=device, ids=chosen)
    result = inputs.run(kernel)
    expected = inputs.reference()
    # Small sums can cancel, so the bound is on the size of what is summed.
    torch.testing.assert_close(result.double(), expected, rtol=0.02, atol=0.02, check_dtype=False)


def test_the_public_function_and_the_module_s_are_one():
    assert dispatch.fused_moe is fused_moe is moe.fused_moe
