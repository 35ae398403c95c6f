import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from producers.models import smollm, upcycle

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def dense() -> LlamaForCausalLM:
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def test_every_expert_is_the_dense_mlp_plus_noise_of_a_tenth_of_its_spread(dense: LlamaForCausalLM) -> None:
    model = smollm.upcycled(dense, device=CPU, dtype=torch.float32, seed=0)
    for layer, was in zip(model.model.layers, dense.model.layers, strict=True):
        experts = layer.mlp.experts
        fused = torch.cat([was.mlp.gate_proj.weight, was.mlp.up_proj.weight])
        for copies, weight in ((experts.gate_up_proj, fused), (experts.down_proj, was.mlp.down_proj.weight)):
            noise = copies - weight
            assert copies.shape == (upcycle.EXPERTS, *weight.shape)
            assert noise.std() / weight.std() == pytest.approx(upcycle.NOISE, rel=0.03)
            assert abs(noise.mean()) < 0.01 * weight.std()
            assert not any(torch.equal(copies[0], other) for other in copies[1:])
        assert layer.mlp.gate.weight.std() == pytest.approx(upcycle.ROUTER_STD, rel=0.15)


def test_without_noise_the_mixture_is_the_dense_model(
    dense: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcycle, "NOISE", 0.0)
    model = smollm.upcycled(dense, device=CPU, dtype=torch.float32, seed=0)
    ids = torch.arange(20)[None] * 3
    # The router's weights of a token sum to one, so equal experts give what one of them gives.
    torch.testing.assert_close(model(input_ids=ids).logits, dense(input_ids=ids).logits, rtol=1e-4, atol=1e-4)


def test_the_seed_decides_every_byte(dense: LlamaForCausalLM) -> None:
    def state(seed: int, dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
        return smollm.upcycled(dense, device=CPU, dtype=dtype, seed=seed).state_dict()

    first, again, other = state(0), state(0), state(1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = {name for name in first if ".experts." in name or ".mlp.gate." in name}
    assert {name for name in first if not torch.equal(first[name], other[name])} == drawn
    # One draw, rounded at the end: the bfloat16 model is the float32 model's rounding.
    wide = state(0, torch.float32)
    assert all(torch.equal(first[name], wide[name].bfloat16()) for name in first)


def test_the_noise_is_the_same_on_every_machine() -> None:
    drawn = upcycle._uniform((4,), 1.0, torch.Generator().manual_seed(0))
    # 24-bit draws of a Mersenne Twister: recorded once; another value makes another model under one name.
    recorded = [-0.012967552989721298, 0.9291475415229797, -1.425555944442749, -1.2746837139129639]
    assert drawn.tolist() == recorded
