from __future__ import annotations

from typing import Any

from transformers import MixtralConfig, MixtralForCausalLM

from dispatch.integration import quantize_experts
from producers.decode.traffic import step_bytes

H, INNER, V, E, K, LAYERS = 64, 32, 256, 4, 2, 2
ATTENTION = H * H + 2 * (H * 32) + H * H  # q, k and v of two of four heads, o
WHOLE = LAYERS * (ATTENTION + E * H + 2 * H) + H  # with routers and norms


def test_a_step_reads_two_of_four_experts_and_one_row_of_the_embedding(tiny: Any) -> None:
    experts = LAYERS * K * 3 * INNER * H
    assert step_bytes(tiny) == 2 * (WHOLE + experts + V * H + H)


def test_int8_experts_are_one_byte_a_weight_and_a_scale_a_channel(tiny: Any) -> None:
    quantize_experts(tiny, "int8_w8a16")
    experts = LAYERS * K * (3 * INNER * H + 4 * (2 * INNER + H))
    assert step_bytes(tiny) == 2 * (WHOLE + V * H + H) + experts


def test_a_head_that_shares_the_embedding_is_read_whole_and_once() -> None:
    config = MixtralConfig(
        vocab_size=V,
        hidden_size=H,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=E,
        num_experts_per_tok=K,
        tie_word_embeddings=True,
    )
    experts = LAYERS * K * 3 * INNER * H
    assert step_bytes(MixtralForCausalLM(config).bfloat16()) == 2 * (WHOLE + experts + V * H)
