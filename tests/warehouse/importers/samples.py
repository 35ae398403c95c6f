"""A small whole file of every format, as its tool writes it."""

from __future__ import annotations

import json
from typing import Any

from tests.warehouse.importers.other_samples import FACTS
from tests.warehouse.importers.other_samples import SAMPLES as OTHER_SAMPLES


def vllm_run(**changed: Any) -> dict[str, Any]:
    """A detailed run of vLLM bench serve: two answers of 13 and 12 tokens, one failure."""
    return {
        "date": "20260101-000000",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 3,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 4,
        "duration": 2.0,
        "completed": 2,
        "failed": 1,
        "total_input_tokens": 20,
        "total_output_tokens": 25,
        "request_throughput": 1.0,
        "output_throughput": 12.5,
        "total_token_throughput": 22.5,
        "input_lens": [10, 10, 10],
        "output_lens": [13, 12, 0],
        "ttfts": [0.2, 0.1, 0.5],
        "itls": [[0.1, 0.1, 0.1], [0.05] * 11, [0.9]],
        "start_times": [1000.0, 1000.0, 1000.5],
        "generated_texts": ["a", "b", ""],
        "errors": ["", "", "server error"],
        "mean_ttft_ms": 150.0,
        "median_ttft_ms": 150.0,
        "mean_tpot_ms": 37.5,
        "median_tpot_ms": 37.5,
        "mean_itl_ms": 60.7,
        "median_itl_ms": 50.0,
        **changed,
    }


def vllm_summary(**changed: Any) -> dict[str, Any]:
    """The same tool without --save-detailed: 8 answers of 50 tokens."""
    return {
        "date": "20260101-000000",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 8,
        "request_rate": "inf",
        "max_concurrency": 4,
        "duration": 2.0,
        "completed": 8,
        "failed": 0,
        "total_input_tokens": 8000,
        "total_output_tokens": 400,
        "request_throughput": 4.0,
        "output_throughput": 200.0,
        "total_token_throughput": 4200.0,
        "mean_ttft_ms": 20.0,
        "median_ttft_ms": 19.0,
        "p99_ttft_ms": 29.0,
        "p99.9_ttft_ms": 30.0,
        "mean_tpot_ms": 5.0,
        "median_tpot_ms": 4.5,
        "mean_itl_ms": 5.0,
        **changed,
    }


def sglang_run(**changed: Any) -> dict[str, Any]:
    """A line of SGLang bench_serving."""
    return {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": 8.0,
        "max_concurrency": 16,
        "random_input_len": 128,
        "random_output_len": 64,
        "random_range_ratio": 1.0,
        "server_info": {
            "model_path": "m",
            "version": "0.5.20",
            "disable_radix_cache": True,
            "load_format": "dummy",
        },
        "duration": 10.0,
        "completed": 80,
        "total_input_tokens": 800,
        "total_output_tokens": 800,
        "total_output_tokens_retokenized": 799,
        "request_throughput": 8.0,
        "output_throughput": 80.0,
        "total_throughput": 160.0,
        "mean_e2e_latency_ms": 900.0,
        "median_e2e_latency_ms": 880.0,
        "mean_ttft_ms": 50.0,
        "median_ttft_ms": 48.0,
        "mean_tpot_ms": 90.0,
        "mean_itl_ms": 91.0,
        **changed,
    }


def one_batch(**changed: Any) -> dict[str, Any]:
    """A line of SGLang bench_one_batch."""
    line = {"run_name": "default", "batch_size": 16, "input_len": 1024, "output_len": 8, "latency": 0.25}
    return {**line, "output_throughput": 512.0, "overall_throughput": 66048.0, **changed}


def lines(*records: dict[str, Any]) -> str:
    """Records as JSON lines, with bare NaN and Infinity."""
    return "".join(json.dumps(record) + "\n" for record in records)


THROUGHPUT = {
    "elapsed_time": 123.0,
    "num_requests": 64,
    "total_num_tokens": 139264,
    "requests_per_second": 0.52,
    "tokens_per_second": 1130.8,
}
CELL = {
    "cell": {"model": "m", "input_len": 256, "output_len": 128, "max_concurrency": 16},
    "contestants": [
        {
            "framework": "vllm",
            "completed": 32,
            "duration_s": 6.0,
            "total_input_tokens": 8192,
            "total_output_tokens": 4096,
        },
        {
            "framework": "sglang",
            "completed": 32,
            "duration_s": 4.0,
            "total_input_tokens": 3742,
            "total_output_tokens": 2196,
        },
    ],
}

# Format -> name and content of a whole file; those of other_samples.py too.
SAMPLES: dict[str, tuple[str, bytes]] = {
    "vllm-serve": ("run.json", (json.dumps(vllm_run()) + "\n" + json.dumps(vllm_summary())).encode()),
    "vllm-throughput": ("throughput.json", json.dumps(THROUGHPUT, indent=4).encode()),
    "sglang-serve": (
        "sglang.jsonl",
        lines(sglang_run(), sglang_run(request_rate=float("inf"), duration=11.0)).encode(),
    ),
    "sglang-one-batch": ("batch.jsonl", ("tp4:\n\n" + lines(one_batch(), one_batch(batch_size=64))).encode()),
    "served-cells": ("cells.json", json.dumps(CELL, indent=1).encode()),
    **OTHER_SAMPLES,
}


def options(format_name: str) -> list[str]:
    """What the command line has to give for a format."""
    return [word for name, value in FACTS.get(format_name, {}).items() for word in (f"--{name}", value)]
