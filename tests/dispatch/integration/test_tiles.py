"""Tiles that a caller chooses, for one call and for a model's calls in a block."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dispatch import ConfigError, fused_moe, moe
from dispatch.config import MoeConfig, TileConfig
from dispatch.integration import use_config
from tests.dispatch.inputs import make as make_inputs
from tests.dispatch.integration.models import make, token_ids

TILE = TileConfig(32, 32, 64)
CONFIG = MoeConfig(TILE, TILE, "by hand")


@pytest.fixture
def plans() -> list[moe.Plan]:
    """Every plan that ran while the test did."""
    seen: list[moe.Plan] = []
    with moe.observe(seen.append):
        yield seen


def test_a_models_calls_run_with_the_tiles_of_the_block(plans, device):
    model = make("mixtral", device)
    model.set_experts_implementation("dispatch_naive")
    chosen = model(token_ids(device)).logits
    with use_config(CONFIG):
        given = model(token_ids(device)).logits
    model(token_ids(device))
    assert [plan.config is CONFIG for plan in plans] == [False, False, True, True, False, False]
    torch.testing.assert_close(given, chosen, rtol=0.02, atol=0.02)


def test_tiles_are_part_of_what_a_prepared_call_is_known_by(plans, device):
    """The same tensors again, with other tiles each time: none may run with those of the call before."""
    inputs = make_inputs(5, 48, 40, 5, 2, device=device)
    taller = replace(CONFIG, gate_up=replace(TILE, block_m=64), down=replace(TILE, block_m=64))
    results = [inputs.run("naive", config=config) for config in (None, CONFIG, taller, CONFIG)]
    assert [plan.config.block_m for plan in plans[1:]] == [32, 64, 32]
    assert plans[0].config.source != "by hand"
    for result in results:
        inputs.check(result)


def test_observers_see_what_ran_and_stop_at_the_end(plans, device):
    inputs = make_inputs(5, 48, 40, 5, 2, "int8_w8a8", device=device)
    inputs.run("persistent")
    assert [(p.kernel, p.problem.precision, p.problem.tokens) for p in plans] == [
        ("persistent", "int8_w8a8", 5)
    ]
    make_inputs(0, 48, 40, 5, 2, device=device).run("naive")  # enqueues nothing
    inner: list[moe.Plan] = []
    with moe.observe(inner.append):
        inputs.run("naive")
    inputs.run("naive")
    assert (len(plans), len(inner)) == (3, 1)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            replace(CONFIG, down=replace(TILE, block_n=24)),
            r"down has blocks \(32, 24, 64\); each must be a power of two",
        ),
        (replace(CONFIG, gate_up=replace(TILE, block_k=8)), r"gate_up has blocks \(32, 32, 8\)"),
        (
            replace(CONFIG, down=replace(TILE, block_m=64)),
            "gate_up has block_m 32 and down 64; both products share",
        ),
    ],
)
def test_tiles_that_cannot_run_are_refused(config, sentence, device):
    inputs = make_inputs(5, 48, 40, 5, 2, device=device)
    with pytest.raises(ConfigError, match=sentence):
        inputs.run("naive", config=config)


def test_an_interpreted_int8_product_that_is_not_exact_is_refused(device):
    if device.type == "cuda":
        pytest.skip("a GPU sums int8 products in int32")
    long = replace(CONFIG, down=replace(TILE, block_k=2048))
    inputs = make_inputs(5, 48, 40, 5, 2, "int8_w8a8", device=device)
    with pytest.raises(
        ConfigError, match="down has block_k 2048; interpreted int8 products are exact up to 1024"
    ):
        inputs.run("naive", config=long)
    make_inputs(5, 48, 40, 5, 2, device=device).run("naive", config=long)


def test_a_kernel_with_tiles_of_its_own_takes_no_others(device):
    x, w13, w2, weights, ids = make_inputs(1, 256, 128, 4, 2, device=device).operands
    with pytest.raises(
        ConfigError, match="kernel 'stream' has tiles of a shape of its own; name one of naive, persistent"
    ):
        fused_moe(x, w13, w2, weights, ids, kernel="stream", config=CONFIG)
