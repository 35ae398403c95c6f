"""The weightless folder of DeepSeek-MoE-16B: the vocabulary is cut to the embedding, and nothing is left dangling."""

from __future__ import annotations

import json

import pytest

from producers.serve.engines import has_weights
from producers.serve.model_folder import cut_tokenizer, main

TOKENIZER = {
    "model": {
        "vocab": {"a": 0, "b": 1, "ab": 2, "abc": 3, "c": 4, "bc": 102_400},
        "merges": ["a b", ["ab", "c"], ["b", "c"]],
    },
    "added_tokens": [{"id": 0}, {"id": 102_400}],
}


def test_what_lies_beyond_the_embedding_is_cut_with_its_merges():
    cut = cut_tokenizer(TOKENIZER, 102_400)

    assert "bc" not in cut["model"]["vocab"]
    assert cut["model"]["merges"] == ["a b", ["ab", "c"]]
    assert cut["added_tokens"] == [{"id": 0}]
    assert cut_tokenizer(TOKENIZER, 3)["model"]["merges"] == ["a b"]


def test_the_folder_is_complete_and_has_no_weights(tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (source / "tokenizer_config.json").write_text('{"model_max_length": 9}')
    folder = tmp_path / "deepseek-moe-16b"

    assert main(["deepseek-moe-16b", str(folder), "--tokenizer", str(source)]) == 0
    config = json.loads((folder / "config.json").read_text())
    assert (config["n_routed_experts"], config["num_experts_per_tok"]) == (64, 6)
    assert json.loads((folder / "tokenizer_config.json").read_text()) == {"model_max_length": 4096}
    assert not has_weights(str(folder))
    (folder / "model.safetensors").touch()
    assert has_weights(str(folder))


@pytest.mark.parametrize("missing", ["tokenizer.json", "tokenizer_config.json"])
def test_a_folder_without_a_tokenizer_is_named(tmp_path, capsys, missing):
    for name in {"tokenizer.json", "tokenizer_config.json"} - {missing}:
        (tmp_path / name).write_text(json.dumps(TOKENIZER))

    assert main(["deepseek-moe-16b", str(tmp_path / "out"), "--tokenizer", str(tmp_path)]) == 2
    assert "has no readable tokenizer.json" in capsys.readouterr().err
