"""One function that loads any of the models, by name or by path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dispatch.errors import DispatchError
from producers.asked import MODEL_NAMES, WEIGHT_FILES
from producers.models import seeded, smollm
from producers.models.loaded import (
    LoadedModel,
    ModelError,
    ModelFacts,
    config_sha256,
    inference,
    parameters_of,
    transformers,
)

Loader = Callable[..., LoadedModel]

NAMES = MODEL_NAMES
_LOADERS: dict[str, Loader] = dict(
    zip(NAMES, (smollm.load, seeded.deepseek_moe_16b, seeded.tiny_mixtral), strict=True)
)
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def load_model(
    name_or_path: str,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | str = "bfloat16",
    experts: str = "eager",
    seed: int = 0,
) -> LoadedModel:
    """A model ready for inference: evaluation mode, no gradients, on ``device``.

    Args:
        name_or_path: one of :data:`NAMES`, or a folder with a checkpoint.
        device: where; weights of a seeded model of full size are drawn there.
        dtype: of the weights: bfloat16, float16 or float32.
        experts: how the experts run: ``eager``, transformers' ``grouped_mm`` and others, or a name that
            ``dispatch.integration.register`` gave. It can be changed afterwards with :func:`use_experts`.
        seed: of what is drawn (upcycling noise, routers, seeded weights).

    Raises:
        ModelError: an unknown name, a folder that is no checkpoint, a missing package, no room on the device.
    """
    place = torch.device(device)
    precise = _dtype(dtype)
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ModelError("There is no CUDA device here: load the model with device cpu.")
    transformers(".utils.logging").disable_progress_bar()  # a command's output is its own
    try:
        if name_or_path in _LOADERS:
            loaded = _LOADERS[name_or_path](device=place, dtype=precise, seed=seed)
        else:
            loaded = _checkpoint(Path(name_or_path).expanduser(), device=place, dtype=precise)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ModelError(f"'{name_or_path}' does not fit on {place}: {_first_line(error)}.") from error
    use_experts(loaded.model, experts)
    return loaded


def use_experts(model: Any, experts: str) -> None:
    """Let the model's experts run by another implementation, from the next call on.

    Raises:
        ModelError: transformers knows no such implementation for this model.
    """
    if experts.startswith("dispatch"):
        from dispatch.integration import register  # noqa: PLC0415 - needs Triton

        register()
    try:
        model.set_experts_implementation(experts)
    except (ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"The experts cannot run as '{experts}': {_first_line(error)}.") from error


def _checkpoint(path: Path, *, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """A folder with ``config.json`` and weights; the first DeepSeek-MoE through dispatch's converter."""
    if not (path / "config.json").is_file():
        raise ModelError(
            f"'{path}' is neither a model known by name ({', '.join(NAMES)}) nor a folder with a config.json."
        )
    files = sorted(file for pattern in WEIGHT_FILES for file in path.glob(pattern))
    if not files:
        raise ModelError(f"{path} has a config.json and no weights ({' or '.join(WEIGHT_FILES)}).")
    try:
        if "DeepseekForCausalLM" in _architectures(path):
            from dispatch.integration import deepseek  # noqa: PLC0415 - needs Triton

            model = deepseek.load(path, dtype=dtype, device=device)
        else:
            model = transformers().AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype).to(device)
        tokenizer = transformers().AutoTokenizer.from_pretrained(str(path))
    except (OSError, ValueError, KeyError, ImportError, DispatchError) as error:
        raise ModelError(f"The checkpoint {path} cannot be loaded: {_first_line(error)}.") from error
    facts = ModelFacts(
        name=path.resolve().name,
        weights="trained",
        tokenizer="trained",
        config_sha256=config_sha256(model.config),
        weights_sha256=_files_sha256(files),
        parameters=parameters_of(model),
    )
    return LoadedModel(inference(model), tokenizer, facts)


def _architectures(path: Path) -> list[str]:
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}/config.json is no JSON: {_first_line(error)}.") from error
    return list(config.get("architectures") or [])


def _files_sha256(files: list[Path]) -> str:
    """SHA-256 over names and contents."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\0".encode())
    return digest.hexdigest()


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ModelError(f"dtype '{dtype}' is unknown; known are {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
