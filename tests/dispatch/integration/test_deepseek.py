"""The first DeepSeek-MoE: from a checkpoint in the released format, against its maths in plain torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dispatch import InvalidInputError, UnsupportedError
from dispatch.integration import count_calls, deepseek, quantize_experts
from dispatch.integration.deepseek.configuration import read_config
from tests.dispatch.integration import released
from tests.dispatch.integration.models import relative_error, with_cache

IDS = torch.tensor([5, 90, 13, 44, 2, 71, 71, 8])


@pytest.fixture(scope="module")
def checkpoint() -> dict[str, torch.Tensor]:
    """A released checkpoint of the tiny configuration."""
    return released.weights(released.CONFIG)


@pytest.fixture(scope="module")
def folder(checkpoint: dict[str, torch.Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, on disk."""
    return released.save(tmp_path_factory.mktemp("released") / "model", released.CONFIG, checkpoint)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_topk_prob": True},
        {"n_shared_experts": None, "first_k_dense_replace": 0},
        {"first_k_dense_replace": 0, "moe_layer_freq": 2},
        {"model_type": "llama", "head_dim": 12},
    ],
)
def test_a_loaded_model_computes_the_released_maths(changes, tmp_path):
    config = {**released.CONFIG, **changes}
    weights = released.weights(config, seed=1)
    model = deepseek.load(released.save(tmp_path / "model", config, weights), torch.float32)
    found = model(IDS[None]).logits[0]
    expected = released.logits(config, weights, IDS)
    assert relative_error(found, expected) < 1e-5
    assert expected.std() > 0.5


def test_a_step_with_a_cache_continues_the_sequence(folder, checkpoint):
    model = deepseek.load(folder, torch.float32)
    start = model(IDS[None, :-1], use_cache=True)
    step = model(IDS[None, -1:], **with_cache(start)).logits[0, 0]
    assert relative_error(step, released.logits(released.CONFIG, checkpoint, IDS)[-1]) < 1e-5


def test_it_runs_on_dispatch_and_in_int8(folder, checkpoint, device):
    expected = released.logits(released.CONFIG, checkpoint, IDS)
    model = deepseek.load(folder, torch.float16, device, experts_implementation="dispatch")
    with count_calls(model) as calls:
        found = model(IDS[None].to(device)).logits[0].cpu()
    assert list(calls.by_layer) == [f"model.layers.{number}.mlp.experts" for number in (1, 2, 3)]
    assert calls.least() == 1
    # Every product of four layers is rounded to 2^-12 here and nothing in the reference.
    assert relative_error(found, expected) < 24 * 2**-12
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    quantize_experts(model, "int8_w8a16")
    assert relative_error(model(IDS[None].to(device)).logits[0].cpu(), expected) < 0.05


def test_auto_classes_know_the_model_and_save_it_as_released(folder, checkpoint, tmp_path):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert isinstance(model, deepseek.DeepseekForCausalLM)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert saved.keys() == checkpoint.keys()
    assert all(torch.equal(saved[name], checkpoint[name]) for name in saved)


# --- seeded models


def test_seeded_models_repeat_and_leave_the_generator_alone():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    first = deepseek.build(released.CONFIG, 1, device="cpu", dtype=torch.float32)
    assert torch.equal(torch.rand(2), wanted)
    again, other = (
        deepseek.build(released.CONFIG, seed, device="cpu", dtype=torch.float32) for seed in (1, 2)
    )
    expert = "model.layers.1.mlp.experts.gate_up_proj"
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.state_dict()[expert], other.state_dict()[expert])
    assert first.state_dict()[expert].std().item() == pytest.approx(0.02, rel=0.05)
    assert first.model.layers[1].mlp.gate.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not any(weight.requires_grad for weight in first.parameters())
    assert not first.training
    assert first(IDS[None]).logits.isfinite().all()


def test_the_dimensions_of_the_16b_model_are_the_released_ones():
    """Its parameters, counted from the architecture; on the meta device, where they cost nothing."""
    model = deepseek.build(device="meta")
    hidden, vocabulary, layers = 2048, 102_400, 28
    attention, norms = 4 * hidden * hidden, 2 * hidden
    experts = 64 * hidden + (64 + 2) * 3 * hidden * 1408
    expected = 2 * vocabulary * hidden + hidden + layers * (attention + norms)
    expected += 3 * hidden * 10_944 + (layers - 1) * experts
    assert sum(weight.numel() for weight in model.parameters()) == expected
    assert model.dtype == torch.bfloat16
    first = model.model.layers[1].mlp
    assert (first.gate.top_k, first.gate.renormalize) == (6, False)


# --- refused


def edited(folder: Path, tmp_path: Path, **changes: Any) -> Path:
    """Return a copy of the folder whose configuration has other fields."""
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
            "is of LlamaForCausalLM, not of Deepseek",
        ),
        ({"n_routed_experts": None}, "no n_routed_experts: a dense DeepSeek model is a Llama"),
        (
            {"scoring_func": "sigmoid"},
            "has scoring_func 'sigmoid', which the first DeepSeek-MoE does not have",
        ),
        ({"kv_lora_rank": 512}, "has kv_lora_rank 512"),
        ({"routed_scaling_factor": 2.5}, "has routed_scaling_factor 2.5"),
    ],
)
def test_another_architecture_is_refused(changes, sentence, folder, tmp_path):
    with pytest.raises(UnsupportedError, match=sentence):
        deepseek.load(edited(folder, tmp_path, **changes))


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"config\.json: No such file or directory; name the folder"):
        deepseek.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"config\.json is no JSON"):
        deepseek.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("model.layers.2.mlp.gate.weight", r"1 weights are missing \(model\.layers\.2\.mlp\.gate\.weight\)"),
        (
            "model.layers.2.mlp.shared_experts.up_proj.weight",
            r"missing \(model\.layers\.2\.mlp\.shared_experts",
        ),
        ("model.layers.2.mlp.experts.3.up_proj.weight", "weights do not fit together; is one missing"),
        (
            "model.layers.2.mlp.experts.3.down_proj.weight",
            r"1 weights are mismatched \(.*layers\.2\.mlp\.experts\.down_proj",
        ),
    ],
)
def test_a_checkpoint_with_gaps_is_not_filled_with_random_weights(name, sentence, checkpoint, tmp_path):
    weights = {key: weight for key, weight in checkpoint.items() if key != name}
    with pytest.raises(InvalidInputError, match=sentence):
        deepseek.load(released.save(tmp_path / "model", released.CONFIG, weights))


def test_weights_that_cannot_be_read_are_refused(folder, tmp_path):
    (tmp_path / "config.json").symlink_to(folder / "config.json")
    with pytest.raises(
        InvalidInputError, match=r"the weights cannot be read: Error no file named model\.safetensors"
    ):
        deepseek.load(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InvalidInputError, match="the weights cannot be read: Error while deserializing header"
    ):
        deepseek.load(tmp_path)


def test_weights_of_a_layer_that_the_configuration_has_not_are_refused(checkpoint, tmp_path):
    config = {**released.CONFIG, "num_hidden_layers": 3}
    with pytest.raises(InvalidInputError, match="weights are unexpected"):
        deepseek.load(released.save(tmp_path / "model", config, checkpoint))


# --- for tools that know the second DeepSeek only


def test_the_translation_says_the_same_model_in_the_second_ones_words():
    translated = deepseek.as_deepseek_v2(released.CONFIG)
    assert translated["architectures"] == ["DeepseekV2ForCausalLM"]
    assert "auto_map" not in translated
    # No latent attention, one group, greedy choice, no scale: what is not the first model is switched off.
    off = {"qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "n_group": 1, "topk_group": 1}
    assert off.items() <= translated.items()
    assert (translated["topk_method"], translated["routed_scaling_factor"]) == ("greedy", 1.0)
    assert released.CONFIG["architectures"] == ["DeepseekForCausalLM"]
    before, after = read_config(released.CONFIG).to_dict(), read_config(translated).to_dict()
    assert {key: after[key] for key in before} | {"architectures": None} == before | {"architectures": None}
    with pytest.raises(UnsupportedError, match="scoring_func 'sigmoid'"):
        deepseek.as_deepseek_v2({**released.CONFIG, "scoring_func": "sigmoid"})
