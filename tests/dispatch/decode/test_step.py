"""The fused step beside transformers' own layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, StaticCache

from dispatch.decode import FusedStep
from dispatch.decode.step import rows_of
from dispatch.errors import InvalidInputError, UnsupportedError
from dispatch.integration import deepseek, quantize_experts, register
from dispatch.moe import Plan, observe

PROMPT = (5, 17, 90, 3, 61)
LENGTH = 16
STEPS = 3


def mixtral(**changes: Any) -> Any:
    sizes = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": None,
        "initializer_range": 0.2,
    }
    torch.manual_seed(0)
    return MixtralForCausalLM(MixtralConfig(**(sizes | changes))).eval()


def deepseek_moe(**changes: Any) -> Any:
    sizes = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "n_shared_experts": 2,
        "n_routed_experts": 6,
        "num_experts_per_tok": 3,
        "first_k_dense_replace": 1,
        "norm_topk_prob": False,
        "initializer_range": 0.2,
    }
    return deepseek.build(sizes | changes, seed=0, device="cpu")


MODELS = {
    "mixtral": mixtral,
    "mixtral-group-of-4": lambda: mixtral(num_key_value_heads=1),
    "deepseek": deepseek_moe,
    "deepseek-renormalised": lambda: deepseek_moe(norm_topk_prob=True, n_shared_experts=None),
    "deepseek-odd-sizes": lambda: deepseek_moe(hidden_size=80, num_attention_heads=5, num_key_value_heads=5),
}


class Decoding:
    """A model with a static cache, one token after the other; each step on a copy of one state."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.model = model.to(device)
        self.cache = StaticCache(config=model.config, max_cache_len=LENGTH)
        prompt = torch.tensor([PROMPT], device=device)
        self.keys = torch.arange(LENGTH, device=device)
        self.place = torch.tensor([[len(PROMPT)]], device=device)
        self.forward(prompt, self.keys[None, : len(PROMPT)])
        self.logits = torch.zeros(model.config.vocab_size, dtype=torch.bfloat16, device=device)

    def forward(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        mask = (self.keys[None] <= places[0][:, None])[None, None]
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=self.cache
        ).logits[0, -1]


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    register()
    with torch.no_grad():
        yield


@pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_step_gives_the_models_own_logits_and_cache(name: str, device: torch.device) -> None:
    stock = Decoding(MODELS[name]().to(torch.bfloat16), device)
    fused = Decoding(stock.model, device)
    step = FusedStep(stock.model, fused.cache)
    for token in range(STEPS):
        ids = torch.tensor([[11 * token + 2]], device=device)
        expected = stock.forward(ids, stock.place).float()
        step(ids, stock.place, fused.logits)
        error = (fused.logits.float() - expected).norm() / expected.norm()
        assert error < 0.03, token  # bfloat16: two orders of one sum
        assert expected.norm() > 5  # logits with something in them
        place = int(stock.place)
        for mine, own in zip(fused.cache.layers, stock.cache.layers, strict=True):
            for kept, wanted in ((mine.keys, own.keys), (mine.values, own.values)):
                assert torch.equal(kept[:, :, :place].ne(0), wanted[:, :, :place].ne(0))
                torch.testing.assert_close(kept, wanted, rtol=0.05, atol=0.05)
                assert kept[:, :, place].abs().sum() > 0
                assert kept[:, :, place + 1 :].abs().sum() == 0
        stock.place += 1


@pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")
@pytest.mark.parametrize("precision", ["int8_w8a16", "int8_w8a8"])
def test_int8_experts_and_the_shared_ones_with_them(precision: str, device: torch.device) -> None:
    model = deepseek_moe()
    expected = Decoding(model, device).forward(
        torch.tensor([[2]], device=device), torch.tensor([[5]], device=device)
    )
    quantize_experts(model, precision)
    model.set_experts_implementation("dispatch")
    fused = Decoding(model, device)
    step = FusedStep(model, fused.cache)
    plans: list[Plan] = []
    with observe(plans.append):
        step(torch.tensor([[2]], device=device), fused.place, fused.logits)
    error = (fused.logits.float() - expected.float()).norm() / expected.float().norm()
    assert 1e-4 < error < 0.15
    # One call for routed and shared experts of each of the two layers that have any.
    assert [(p.problem.experts, p.problem.top_k, p.problem.precision) for p in plans] == [
        (8, 5, precision)
    ] * 2


@pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")
def test_the_bytes_of_a_step_are_those_of_what_it_reads(device: torch.device) -> None:
    model = deepseek_moe()
    fused = Decoding(model, device)
    attention = 4 * 64 * 64 + 2 * 64  # four projections, two norms
    dense = 3 * 96 * 64
    experts = 6 * 64 + (3 + 2) * 3 * 32 * 64  # router; three chosen and two shared
    whole = (
        3 * attention + dense + 2 * experts + 128 * 64 + 64 + 64
    )  # head, last norm, a row of the embedding
    assert FusedStep(model, fused.cache).weight_bytes == 2 * whole


@pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")
def test_what_it_does_not_compute_is_refused_by_name(device: torch.device) -> None:
    tiny = {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 128, "moe_intermediate_size": 32}
    qwen = Qwen3MoeForCausalLM(Qwen3MoeConfig(**tiny, num_experts=4, num_attention_heads=4, head_dim=16))
    empty = StaticCache(config=qwen.config, max_cache_len=LENGTH)
    with pytest.raises(UnsupportedError, match="Qwen3MoeForCausalLM has no fused decode step"):
        FusedStep(qwen, empty)
    with pytest.raises(UnsupportedError, match="sliding window"):
        FusedStep(mixtral(sliding_window=8).bfloat16(), empty)
    with pytest.raises(UnsupportedError, match="heads of 24"):
        FusedStep(mixtral(head_dim=24).bfloat16(), empty)
    model = mixtral().bfloat16()
    unread = StaticCache(config=model.config, max_cache_len=LENGTH)
    with pytest.raises(InvalidInputError, match="run the model over the prompt"):
        FusedStep(model, unread)


def test_a_program_takes_few_enough_rows_for_every_multiprocessor() -> None:
    assert rows_of(6144, 2048, False, 132) == 8  # 32 KB of bfloat16
    assert rows_of(2048, 2048, False, 132) == 4
    assert rows_of(10944, 2048, True, 132) == 4
    assert rows_of(64, 2048, False, 132) == 1
    assert rows_of(102400, 1024, False, 132) == 16


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")
def test_a_captured_step_replays_what_a_call_computes(device: torch.device) -> None:
    model = deepseek_moe()
    called, replayed = Decoding(model, device), Decoding(model, device)
    ids = torch.tensor([[2]], device=device)
    FusedStep(model, called.cache)(ids, called.place, called.logits)
    step = FusedStep(model, replayed.cache)
    step(ids, replayed.place, replayed.logits)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(ids, replayed.place, replayed.logits)
    replayed.logits.zero_()
    for _ in range(3):  # launches overlap, and a replay must not read what its predecessor still writes
        graph.replay()
    assert torch.equal(replayed.logits, called.logits)
