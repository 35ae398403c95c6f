"""A small whole file of the formats that are no serving benchmark of vLLM or SGLang, as their tools write them."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Document = dict[str, Any]


def metric(unit: str, avg: float | None, **statistics: float) -> Document:
    """A metric of AIPerf."""
    return {"unit": unit, "avg": avg, **statistics}


def aiperf(**changed: Any) -> Document:
    """An aggregate of AIPerf: 200 answers, 84 errors that only the summary counts."""
    return {
        "aiperf_version": "0.3.0",
        "request_throughput": metric("requests/sec", 13.0),
        "request_latency": metric("ms", 6550.0, p50=5800.0, p99=9381.0),
        "request_count": metric("requests", 200.0),
        "time_to_first_token": metric("ms", 1588.0, p50=787.0, p99=4100.0),
        "inter_token_latency": metric("ms", 51.0, p50=50.0),
        "inter_chunk_latency": metric("ms", 102.0),
        "output_token_throughput": metric("tokens/sec", 1274.0),
        "benchmark_duration": metric("sec", 15.0),
        "total_isl": metric("tokens", 110000.0),
        "total_osl": metric("tokens", 19370.0),
        "error_request_count": None,
        "error_summary": [{"error_details": {"code": 499}, "count": 81}, {"count": 3}],
        "start_time": "2025-10-17T20:22:08.939332",
        "input_config": {
            "endpoint": {"model_names": ["openai/gpt-oss-20b"]},
            "loadgen": {"concurrency": 100, "request_count": 284},
            "input": {"random_seed": 7},
        },
        **changed,
    }


def stage(**load: Any) -> Document:
    """A lifecycle report of inference-perf, in seconds."""

    def seconds(mean: float) -> Document:
        return {"mean": mean, "median": mean * 0.9, "p99": mean * 2, "p99.9": mean * 3}

    return {
        "load_summary": {"count": 100, "requested_rate": 5.0, "achieved_rate": 4.9, **load},
        "successes": {
            "count": 90,
            "latency": {
                "request_latency": seconds(2.0),
                "time_to_first_token": seconds(0.5),
                "inter_token_latency": seconds(0.02),
                "time_per_output_token": seconds(0.021),
            },
            "throughput": {
                "output_tokens_per_sec": 900.0,
                "total_tokens_per_sec": 1900.0,
                "requests_per_sec": 9.0,
            },
            "prompt_len": {"mean": 1030.1},
            "output_len": {"mean": 100.0},
        },
        "failures": {"count": 10, "request_latency": None},
    }


SUMMARY = {
    "version": "2023-08-31",
    "name": "m_550_150_summary",
    "model": "m",
    "mean_input_tokens": 550,
    "stddev_input_tokens": 0,
    "mean_output_tokens": 150,
    "num_concurrent_requests": 4,
    "results_inter_token_latency_s_mean": 0.0595,
    "results_ttft_s_quantiles_p50": 2.0,
    "results_ttft_s_quantiles_p99": 2.25,
    "results_ttft_s_mean": 1.7,
    "results_end_to_end_latency_s_mean": 9.5,
    "results_end_to_end_latency_s_quantiles_p50": 9.4,
    "results_end_to_end_latency_s_quantiles_p99": 9.7,
    "results_number_input_tokens_mean": 550.0,
    "results_number_output_tokens_mean": 159.18,
    "results_number_output_tokens_max": "169",
    "results_num_requests_started": 105,
    "results_number_errors": 5,
    "results_mean_output_throughput_token_per_s": 64.5,
    "results_num_completed_requests": 100,
    "results_num_completed_requests_per_min": 24.0,
    "timestamp": 1718208921,
}


def aggregate(**changed: Any) -> Document:
    """An aggregate of InferenceMAX: seconds without a suffix."""
    return {
        "hw": "h200",
        "conc": 16,
        "image": "vllm/vllm-openai:v0.11.2",
        "model": "openai/gpt-oss-120b",
        "framework": "vllm",
        "precision": "fp4",
        "isl": 1024,
        "osl": 1024,
        "tp": 8,
        "ep": 1,
        "dp_attention": "false",
        "is_multinode": "false",
        "disagg": False,
        "tput_per_gpu": 260.0,
        "output_tput_per_gpu": 130.0,
        "mean_ttft": 2.84,
        "median_ttft": 1.76,
        "p99_ttft": 10.0,
        "mean_tpot": 0.12,
        "median_tpot": 0.118,
        "mean_itl": 0.1,
        "median_e2el": 21.0,
        "mean_intvty": 8.3,
        "p99_intvty": 7.8,
        "std_intvty": 295.9,
        **changed,
    }


NOTHING = {"mean": 0.0, "median": 0.0, "count": 0, "total_sum": 0.0, "percentiles": {"p50": 0.0, "p99": 0.0}}


def distribution(mean: float, count: int, p99: float | None = None) -> dict[str, Any]:
    """A metric of which only successful requests have members."""
    members = {
        "mean": mean,
        "median": mean,
        "count": count,
        "total_sum": mean * count,
        "percentiles": {"p50": mean, "p99": mean if p99 is None else p99},
    }
    return {"successful": members if count else NOTHING, "errored": NOTHING, "incomplete": NOTHING}


def metrics(successful: int) -> dict[str, Any]:
    """Metrics of a benchmark with so many successes of 8 tokens out and 32 in."""
    return {
        "requests_per_second": distribution(2.0, successful),
        "request_latency": distribution(0.5, successful, p99=0.9),
        "prompt_token_count": distribution(32.0, successful),
        "output_token_count": distribution(8.0, successful),
        "time_to_first_token_ms": distribution(100.0, successful, p99=150.0),
        "time_per_output_token_ms": distribution(62.5, 8 * successful),
        "inter_token_latency_ms": distribution(57.0, 7 * successful),
        "output_tokens_per_second": distribution(16.0, 8 * successful),
        "tokens_per_second": distribution(80.0, 40 * successful),
    }


def totals(successful: int, errored: int = 0, incomplete: int = 0) -> dict[str, int]:
    return {
        "successful": successful,
        "errored": errored,
        "incomplete": incomplete,
        "total": successful + errored + incomplete,
    }


def guidellm_03(strategy: dict[str, Any], successful: int = 3, errored: int = 1) -> dict[str, Any]:
    """A report of 0.3: strategy in args, counts beside the metrics."""
    benchmark = {
        "type_": "generative_benchmark",
        "args": {"strategy": strategy},
        "worker": {"backend_model": "m"},
        "request_loader": {"data": "prompt_tokens=32,output_tokens=8"},
        "metrics": metrics(successful),
        "request_totals": totals(successful, errored, incomplete=2),
        "start_time": 100.0,
        "end_time": 102.0,
        "duration": 2.0,
    }
    return {"benchmarks": [benchmark]}


def guidellm_08(
    strategy: dict[str, Any], requests: dict[str, Any] | None = None, successful: int = 3
) -> dict[str, Any]:
    """A report of 0.8: strategy in config, counts among the metrics, a version."""
    benchmark = {
        "config": {"strategy": strategy, "backend": {"model": "m"}},
        "metrics": {**metrics(successful), "request_totals": totals(successful, errored=1)},
        "requests": requests or {"successful": [], "errored": [], "incomplete": []},
        "start_time": 100.0,
        "duration": 2.0,
    }
    spec = {"data": [{"prompt_tokens": 32, "output_tokens": 8}], "seed": {"value": 42}}
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.0"},
        "config": {"spec": spec},
        "benchmarks": [benchmark],
    }


def guidellm_request(**given: Any) -> dict[str, Any]:
    """One request that guidellm kept."""
    return {
        "prompt_tokens": 32,
        "output_tokens": 8,
        "request_latency": 0.8,
        "time_to_first_token_ms": 100.0,
        "request_start_time": 100.5,
        **given,
    }


def llmperf_response(**given: Any) -> Document:
    """One of llmperf's individual responses."""
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.05,
        "ttft_s": 0.5,
        "end_to_end_latency_s": 1.5,
        "number_input_tokens": 550,
        "number_output_tokens": 11,
        **given,
    }


PERF = "num_tokens,Triton (naive),vLLM\n1.000000,0.041000,0.040000\n16.000000,,nan\n"


UNITS = """cell,framework,value,unit,metric
A,vllm,250,us,latency
A,sglang,0.3,ms,latency
A,triton,0.00028,s,latency
A,deepgemm,310000,ns,latency
A,unknown,0.29,,latency
A,odd,0.29,TFLOPS,latency
A,lost,-1,ms,latency
B,vllm,100,TFLOPS,throughput
"""


def liger(*lines: dict[str, Any]) -> str:
    """A table of Liger with these lines; what a line leaves out is that of the first sweep's first point."""
    common = {
        "kernel_name": "fused_moe",
        "kernel_provider": "liger",
        "kernel_operation_mode": "full",
        "metric_name": "speed",
        "metric_unit": "ms",
        "x_name": "T",
        "x_label": "num_tokens",
        "x_value": "8192",
        "y_value_50": "4.0",
        "y_value_20": "3.0",
        "y_value_80": "5.0",
        "extra_benchmark_config_str": '"{""sweep_dim"": ""T"", ""T"": null, ""E"": 128, ""H"": 2048, '
        '""intermediate_dim"": 768, ""K"": 8, ""dtype"": ""torch.bfloat16""}"',
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "timestamp": "2026-04-02 23:57:32",
        "liger_version": "0.7.0",
    }
    rows = [",".join(str(value) for value in {**common, **line}.values()) for line in lines]
    return "\n".join([",".join(common), *rows]) + "\n"


def aiconfigurator(**columns: list[Any]) -> bytes:
    """A table of aiconfigurator of two rows, with these columns in place of its own."""
    table = {
        "framework": ["VLLM", "SGLang"],
        "version": ["0.24.0", "0.5.14"],
        "device": ["NVIDIA H200"] * 2,
        "op_name": ["moe"] * 2,
        "kernel_source": ["a", "b"],
        "moe_dtype": ["bfloat16"] * 2,
        "num_tokens": [64] * 2,
        "hidden_size": [2048] * 2,
        "inter_size": [768] * 2,
        "topk": [8] * 2,
        "num_experts": [128] * 2,
        "moe_tp_size": [1] * 2,
        "moe_ep_size": [1] * 2,
        "distribution": ["balanced"] * 2,
        "latency": [0.5, 0.25],
        **columns,
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink)
    return sink.getvalue()


TUNED_NAME = "E=160,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
TUNED_ENTRY = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "num_warps": 4, "num_stages": 3}


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode()


# Format -> name and content of a whole file.
SAMPLES: dict[str, tuple[str, bytes]] = {
    "guidellm": (
        "guidellm.json",
        _json(guidellm_08({"type_": "concurrent", "streams": 4}, {"successful": [guidellm_request()] * 3})),
    ),
    "aiperf": ("profile_export_aiperf.json", _json(aiperf())),
    "inference-perf": ("stage_0_lifecycle_metrics.json", _json(stage())),
    "llmperf": (
        "m_individual_responses.json",
        _json([llmperf_response(), llmperf_response(error_code=-100)]),
    ),
    "inferencemax": ("agg_x.json", _json(aggregate())),
    "triton-perf-report": ("moe.csv", PERF.encode()),
    "liger": ("liger.csv", liger({}, {"metric_name": "memory", "metric_unit": "MB"}).encode()),
    "aiconfigurator": ("moe.parquet", aiconfigurator()),
    "moe-configs": (TUNED_NAME, _json({"triton_version": "3.5.0", "1": TUNED_ENTRY, "24": TUNED_ENTRY})),
    "units-csv": ("units.csv", UNITS.encode()),
}
# What the command line has to give, by format.
FACTS: dict[str, dict[str, str]] = {"triton-perf-report": {"unit": "ms", "direction": "lower"}}
