"""int8 experts in place: values, memory, and what is refused."""

from __future__ import annotations

import weakref

import pytest
import torch

from dispatch import InvalidInputError, Precision, UnsupportedError, fused_moe_reference, quantize_per_channel
from dispatch.integration import count_calls, quantize_experts
from dispatch.integration.layers import experts_layers
from tests.dispatch.inputs import BOUNDS
from tests.dispatch.integration.models import make, relative_error, token_ids
from tests.dispatch.integration.test_layouts import (
    EXPERTS,
    HIDDEN,
    INTERMEDIATE,
    Transposed,
    layer_of,
    routed,
)

EIGHT_BITS = [Precision.INT8_W8A16, Precision.INT8_W8A8]


@pytest.mark.parametrize("precision", EIGHT_BITS)
def test_a_quantised_layer_computes_with_its_own_weights_in_int8(precision, device):
    layer = layer_of(device)
    w13, w13_scale = quantize_per_channel(layer.gate_up_proj)
    w2, w2_scale = quantize_per_channel(layer.down_proj)
    quantize_experts(torch.nn.ModuleList([layer]), precision)
    assert torch.equal(layer.gate_up_proj, w13)
    assert torch.equal(layer.down_proj_scale, w2_scale)
    x, ids, weights = routed(device)
    scales = {"w13_scale": w13_scale, "w2_scale": w2_scale}
    expected = fused_moe_reference(x, w13, w2, weights, ids, **scales, dtype=torch.float64)
    with count_calls(layer) as calls:
        error = relative_error(layer(x, ids, weights), expected)
    assert calls.precisions == {precision}
    assert error < BOUNDS[precision]
    if precision is Precision.INT8_W8A8:
        assert error > BOUNDS[Precision.INT8_W8A16]  # activations were quantised: weights alone err less


def test_the_report_has_the_bytes_of_every_layer_and_the_old_weights_are_freed(device):
    model = make("qwen2_moe", device)
    layers = experts_layers(model)
    floats = [weakref.ref(weight) for layer in layers.values() for weight in layer.parameters()]
    report = quantize_experts(model, "int8_w8a16")
    # 6 experts of 96 x 64 and 64 x 48 values; scales of 4 bytes for 96 + 64 channels.
    before, after = 6 * (96 * 64 + 64 * 48) * 2, 6 * (96 * 64 + 64 * 48 + 4 * (96 + 64))
    assert [(m.name, m.before_bytes, m.after_bytes) for m in report.layers] == [
        (name, before, after) for name in layers
    ]
    assert (report.before_bytes, report.after_bytes) == (2 * before, 2 * after)
    assert len(floats) == 4
    assert all(held() is None for held in floats)
    assert f"{2 * before:>16} {2 * after:>16}" in str(report).splitlines()[-1]


def test_a_model_runs_quantised_and_changes_between_both_formats(device):
    model = make("mixtral", device, torch.float16)
    stock = model(token_ids(device)).logits.clone()
    model.set_experts_implementation("dispatch")
    errors = {}
    for precision in EIGHT_BITS:
        report = quantize_experts(model, precision)
        with count_calls(model) as calls:
            errors[precision] = relative_error(model(token_ids(device)).logits, stock)
        assert (calls.least(precision=precision), calls.precisions) == (1, {precision})
    assert report.before_bytes == report.after_bytes  # the second time only the format changed
    # A weight is rounded to steps of max|row| / 127, some 0.7% of the norm of a row of 64.
    assert 0.001 < errors[Precision.INT8_W8A16] < errors[Precision.INT8_W8A8] < 0.1


def test_a_transposed_layer_is_quantised_along_its_reduction(device):
    layer = layer_of(device, Transposed, is_transposed=True)
    w13, w13_scale = quantize_per_channel(layer_of(device).gate_up_proj)
    quantize_experts(torch.nn.ModuleList([layer]), "int8_w8a16")
    assert layer.gate_up_proj.shape == (EXPERTS, 2 * INTERMEDIATE, HIDDEN)
    assert torch.equal(layer.gate_up_proj, w13)
    assert torch.equal(layer.gate_up_proj_scale, w13_scale)


def test_another_implementation_does_not_take_int8_values_for_weights(device):
    model = make("mixtral", device)
    quantize_experts(model, "int8_w8a16")
    for name in ("eager", "grouped_mm", "batched_mm"):
        model.set_experts_implementation(name)
        with pytest.raises(InvalidInputError, match=f"int8 weights and experts_implementation is '{name}'"):
            model(token_ids(device))


def test_moving_scales_to_16_bits_is_refused(device):
    """`model.half()` casts every floating-point buffer; int8 results would lose two digits in silence."""
    model = make("mixtral", device)
    model.set_experts_implementation("dispatch")
    quantize_experts(model, "int8_w8a16")
    model.half()
    with pytest.raises(InvalidInputError, match=r"w13_scale is torch\.float16; it must be float32"):
        model(token_ids(device))


def test_nothing_is_quantised_where_one_layer_is_refused(device):
    good, biased = layer_of(device), layer_of(device, has_bias=True)
    with pytest.raises(UnsupportedError, match="has_bias"):
        quantize_experts(torch.nn.ModuleList([good, biased]), "int8_w8a16")
    assert good.gate_up_proj.dtype == torch.bfloat16


@pytest.mark.parametrize("precision", ["bf16", "int4", Precision.FP16])
def test_other_precisions_are_refused(precision, device):
    with pytest.raises(
        InvalidInputError, match=f"precision '{precision}': experts are quantised to int8_w8a16"
    ):
        quantize_experts(torch.nn.ModuleList([layer_of(device)]), precision)


def test_int8_values_are_neither_saved_as_weights_nor_overwritten_by_them(device, tmp_path):
    model = make("mixtral", device)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    quantize_experts(model, "int8_w8a16")
    held = next(iter(experts_layers(model).values())).gate_up_proj.clone()
    with pytest.raises(InvalidInputError, match=r"experts\. holds int8 weights.*save the model before"):
        model.save_pretrained(tmp_path)
    with pytest.raises(InvalidInputError, match="load the weights before"):
        model.load_state_dict(before, strict=False)
    assert torch.equal(next(iter(experts_layers(model).values())).gate_up_proj, held)
    assert list(tmp_path.glob("*.safetensors")) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_int8_cannot_hold_are_refused(value, device):
    model = make("mixtral", device)
    first, *_, last = experts_layers(model).values()
    last.down_proj.data[0, 0, 0] = value
    with pytest.raises(UnsupportedError, match="down_proj has NaN or infinity"):
        quantize_experts(model, "int8_w8a16")
    assert first.gate_up_proj.dtype == torch.bfloat16
