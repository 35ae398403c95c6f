"""The real model: as the package carries it, upcycled."""

import importlib.util
from pathlib import Path

import pytest
import torch

from producers.models import ModelError, load_model, python_documentation, smollm


@pytest.mark.slow
def test_the_upcycled_model_still_speaks_the_language_of_pythons_documentation() -> None:
    try:
        smollm.find_gguf()
    except ModelError as absent:
        pytest.skip(str(absent))
    positions = 512
    loaded = load_model("upcycled-smollm2", dtype="float32")
    ids = torch.tensor(loaded.token_ids(python_documentation()[:8000])[: positions + 1])
    logits = loaded.model(input_ids=ids[None, :-1]).logits[0]
    perplexity = torch.nn.functional.cross_entropy(logits, ids[1:]).exp().item()
    # Dense it is some 12; a vocabulary of 49,152 at random would be 49,152.
    assert perplexity < 20
    rounded = load_model("upcycled-smollm2", dtype="bfloat16")
    near = rounded.model(input_ids=ids[None, :-1]).logits[0].float()
    # Top decisions differ here and there and no more: a gate has something to count.
    assert 0 < (near.argmax(-1) != logits.argmax(-1)).sum() < 0.06 * positions
    assert loaded.facts == rounded.facts
    assert loaded.facts.weights == "upcycled"
    assert loaded.facts.parameters == 692_036_928


@pytest.mark.parametrize("missing", ["gguf", "accelerate"])
def test_a_package_that_reads_the_file_and_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """transformers would say so itself, from the inside and one package at a time."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else True)
    with pytest.raises(ModelError, match=rf"through the package {missing}, which is missing: pip install"):
        smollm._dense(tmp_path / "model.gguf")
