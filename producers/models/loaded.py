"""What loading gives: a model, how text becomes its tokens, and what it is."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from producers.errors import UsageError


class ModelError(UsageError):
    """A model cannot be loaded here: one sentence that says why and what to do."""


class Tokenizer(Protocol):
    """What is asked of a tokenizer; transformers' own have it."""

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``."""
        ...


@dataclass(frozen=True)
class ModelFacts:
    """What makes two loads the same model.

    Attributes:
        name: as asked for; of a local checkpoint the folder's last part, never its path.
        weights: trained, upcycled (trained weights copied into experts, plus seeded noise) or seeded.
        tokenizer: trained, or hashed (ids drawn from the text's words by hash).
        config_sha256: of the configuration, as canonical JSON.
        weights_sha256: of the weight files and of what was made of them; for seeded weights of the recipe.
        parameters: how many weights the model has.
    """

    name: str
    weights: str
    tokenizer: str
    config_sha256: str
    weights_sha256: str
    parameters: int


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode on its device, its tokenizer, and its facts."""

    model: Any  # a transformers PreTrainedModel; nothing here needs its type
    tokenizer: Tokenizer
    facts: ModelFacts

    def token_ids(self, text: str) -> list[int]:
        """Token ids of ``text``, none added in front or behind by this class.

        Raises:
            ModelError: the text is empty, or an id lies beyond the model's embedding.
        """
        if not text.strip():
            raise ModelError("The text is empty: there is nothing to tokenise.")
        ids = [int(i) for i in self.tokenizer.encode(text)]
        size = int(self.model.config.vocab_size)
        beyond = next((i for i in ids if not 0 <= i < size), None)
        if beyond is not None:
            raise ModelError(
                f"The tokenizer gives id {beyond}, and '{self.facts.name}' has embeddings for ids under {size}: "
                "tokenizer and checkpoint do not belong together."
            )
        return ids


class HashedWords:
    """Token ids where no tokenizer exists: each word (with the blanks before it) hashed into the vocabulary.

    The ids carry no language; equal words get equal ids on every machine.
    """

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        """SHA-256 of each word, its first eight bytes modulo the vocabulary."""
        words = text.split()
        return [
            int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") % self.vocabulary
            for word in words
        ]


def transformers(module: str = "") -> Any:
    """The package transformers, or a module of it: imported when a model is loaded, for it takes seconds.

    Untyped on purpose: its annotations change with every release, and two of them are supported at once.
    """
    return importlib.import_module(f"transformers{module}")


def inference(model: Any) -> Any:
    """The model in evaluation mode, without gradients."""
    return model.eval().requires_grad_(False)


def sha256_of_json(value: Mapping[str, Any]) -> str:
    """SHA-256 of a mapping, its keys sorted; what JSON cannot say is taken as text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def config_sha256(config: Any) -> str:
    """SHA-256 of what a transformers configuration says beyond its class's defaults.

    How a model is stored and run (type of its weights, kernels, the version that wrote it) is left out.
    """
    ignored = {"architectures", "transformers_version", "dtype", "torch_dtype", "quantization_config"}
    return sha256_of_json(
        {
            name: value
            for name, value in config.to_diff_dict().items()
            if name not in ignored and not name.startswith("_") and not name.endswith("_implementation")
        }
    )


def parameters_of(model: nn.Module) -> int:
    """Number of weights; tied ones count once."""
    return sum(p.numel() for p in model.parameters())
