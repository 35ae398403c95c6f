"""A DeepSeek-MoE from a checkpoint folder, or with seeded weights."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    register_checkpoint_conversion_mapping,
)

from dispatch.errors import InvalidInputError, UnsupportedError
from dispatch.integration.deepseek.configuration import DEEPSEEK_MOE_16B, DeepseekConfig, read_config
from dispatch.integration.deepseek.modeling import DeepseekForCausalLM

_NAMED = 3

# The released names, `mlp.experts.E.gate_proj.weight`, are those of Qwen2-MoE; so are the fused ones.
register_checkpoint_conversion_mapping(
    "DeepseekForCausalLM", get_checkpoint_conversion_mapping("qwen2_moe"), overwrite=True
)
AutoConfig.register("deepseek", DeepseekConfig, exist_ok=True)
AutoModelForCausalLM.register(DeepseekConfig, DeepseekForCausalLM, exist_ok=True)


def load(
    path: str | Path,
    dtype: torch.dtype = torch.bfloat16,
    device: torch.device | str = "cpu",
    *,
    experts_implementation: str = "eager",
) -> DeepseekForCausalLM:
    """The model of a checkpoint folder in the released format, for inference.

    Args:
        path: with ``config.json`` and the weights, named as released; nothing is downloaded.
        dtype: of the weights.
        device: where the model goes.
        experts_implementation: as transformers takes it.

    Raises:
        InvalidInputError: no such folder, no configuration, or weights that do not fill the model.
        UnsupportedError: the configuration is not one of a first DeepSeek-MoE.
    """
    config = _read(Path(path))
    try:
        loaded: Any = DeepseekForCausalLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            experts_implementation=experts_implementation,
            local_files_only=True,
            # Weights of another shape are named below, with those that transformers would draw anew.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (OSError, SafetensorError) as error:
        raise InvalidInputError(f"{path}: the weights cannot be read: {_first_line(error)}.") from None
    except RuntimeError as error:
        raise InvalidInputError(
            f"{path}: the experts' weights do not fit together; is one missing? {_first_line(error)}."
        ) from None
    model, info = loaded
    for what in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        if info[what]:
            names = sorted(map(str, info[what]))
            shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            raise InvalidInputError(
                f"{path}: {len(names)} weights are {what.removesuffix('_keys')} ({shown}); "
                "the checkpoint is no complete DeepseekForCausalLM."
            )
    ready: DeepseekForCausalLM = model.to(device).eval().requires_grad_(False)
    return ready


def build(
    config: Mapping[str, Any] | DeepseekConfig = DEEPSEEK_MOE_16B,
    seed: int = 0,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: torch.device | str = "cuda",
    experts_implementation: str = "eager",
) -> DeepseekForCausalLM:
    """A model of these dimensions with seeded normal weights, for inference.

    Weights are made on the device, fused as they are used, and need no host memory. The same seed gives the
    same weights on the same kind of device.

    Args:
        config: fields of a ``config.json``; by default those of DeepSeek-MoE-16B.
        seed: of the device's generator, whose state is restored afterwards.
        dtype: of the weights.
        device: where they are made.
        experts_implementation: as transformers takes it.

    Raises:
        UnsupportedError: the configuration is not one of a first DeepSeek-MoE.
    """
    if not isinstance(config, DeepseekConfig):
        config = read_config(config)
    where = torch.device(device)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []), where:
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(
            config, dtype=dtype, experts_implementation=experts_implementation
        )
    ready: DeepseekForCausalLM = model.eval().requires_grad_(False)
    return ready


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _read(path: Path) -> DeepseekConfig:
    file = path / "config.json"
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{file}: {error.strerror}; name the folder of a checkpoint.") from None
    except ValueError as error:
        raise InvalidInputError(f"{file} is no JSON: {error}.") from None
    named = fields.get("architectures") or []
    if fields.get("model_type") != "deepseek" and "DeepseekForCausalLM" not in named:
        raise UnsupportedError(
            f"{file} is of {', '.join(named) or fields.get('model_type')}, not of DeepseekForCausalLM."
        )
    return read_config(fields)
