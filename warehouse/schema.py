"""The lake's contract: one declared Arrow schema per table.

Every producer writes through :mod:`warehouse.append`, which casts to these schemas; a column that
is not declared here is an error that names it. Units stand in the column names (``_us``, ``_ms``,
``_s``, ``_bytes``, ``_mhz``, ``_w``, ``_c``). A value that is unknown is NULL; NaN and infinity never
enter. What each table holds, and which columns identify a row of it, is in :data:`TABLES`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1

TEXT = pa.string()
REAL = pa.float64()
INT = pa.int64()
FLAG = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
REALS = pa.list_(pa.float64())


@dataclass(frozen=True)
class Table:
    """A lake table: what it holds, its columns, the columns that identify a row, and which may not be NULL."""

    about: str
    columns: dict[str, pa.DataType]
    identity: tuple[str, ...]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, ``schema_version`` first; identity and required columns are not nullable."""
        never_null = {"schema_version", *self.identity, *self.required}
        fields = [pa.field("schema_version", pa.int32(), nullable=False)]
        fields += [pa.field(n, t, nullable=n not in never_null) for n, t in self.columns.items()]
        return pa.schema(fields)


# What makes a cell: the shape, the numbers' format, the routing and the size.
_CELL = {
    "workload": TEXT,  # name of the MoE shape, e.g. deepseek-moe-16b
    "experts": INT,  # E
    "top_k": INT,
    "hidden": INT,  # H
    "intermediate": INT,  # I (w13 has 2 I rows an expert)
    "precision": TEXT,  # bf16, fp16, int8_w8a16, int8_w8a8
    "routing": TEXT,  # uniform, zipf (s = 1.0), zipf-S for another s, balanced, captured, dummy ...
    "tokens": INT,  # M
}

TABLES: dict[str, Table] = {
    "policies": Table(
        "The text of every policy that a run was measured under, registered before the first measurement.",
        {"policy_sha256": TEXT, "registered_at": TIME, "policy_toml": TEXT},
        identity=("policy_sha256",),
        required=("registered_at", "policy_toml"),
    ),
    "runs": Table(
        "Events of a producer's run: started, resumed, stopped (clean, before its end), finished, interrupted.",
        {
            "run_id": TEXT,  # time-sortable: YYYYMMDDTHHMMSSZ-xxxxxxxx
            "event_seq": INT,  # 0 is the start
            "event": TEXT,
            "recorded_at": TIME,
            "producer": TEXT,  # race, gate, decode, serve, ceilings, tune
            "policy_sha256": TEXT,
            "device": TEXT,  # 'NVIDIA H200'; 'cpu-interpreter' under Triton's interpreter
            "device_uuid": TEXT,
            "driver_version": TEXT,
            "power_limit_w": REAL,
            "sm_count": INT,
            "l2_bytes": INT,
            "memory_bytes": INT,
            "hostname": TEXT,
            "platform": TEXT,
            "source_revision": TEXT,  # git commit, NULL outside a checkout
            "source_sha256": TEXT,  # over the tracked sources as they are on disk
            "source_dirty": FLAG,
            "seed": INT,
            "plan_json": TEXT,  # everything that was asked for
            "detail": TEXT,  # why it stopped
        },
        identity=("run_id", "event_seq"),
        required=("event", "recorded_at", "producer"),
    ),
    "rosters": Table(
        "Who takes part in a run, written before the first measurement; required rivals left out stand here too.",
        {
            "run_id": TEXT,
            "contestant": TEXT,
            "house": TEXT,
            "role": TEXT,  # required, informational, control
            "entered": FLAG,  # false: the policy requires it and the command line left it out
            "precision": TEXT,  # the role holds for this precision
            "control_of": TEXT,  # for a control: the contestant that it repeats
            "config_source": TEXT,  # shipped, tuned, auto, fixed
            "implementation": TEXT,  # module:attribute, or an entry point's value
            "interpreter": TEXT,  # basename only; paths of a machine stay out of the lake
            "recorded_at": TIME,  # before the contestant's first verdict
        },
        identity=("run_id", "contestant", "precision"),
        required=("house", "role", "entered"),
    ),
    "cells": Table(
        "The cells of a run with the inputs that were drawn for them.",
        {
            "run_id": TEXT,
            "cell_id": TEXT,  # workload/precision/routing/tokens
            **_CELL,
            "zipf_s": REAL,
            "seed": INT,
            "inputs_sha256": TEXT,  # over x, weights, scales, ids, router weights
            "distinct_experts": INT,  # experts that the drawn ids touch
            "max_expert_load": INT,  # slots of the hottest expert
            "weight_bytes": INT,  # weights and scales of the touched experts
            "io_bytes": INT,  # x, ids and router weights read, output written
            "flops": INT,  # 2 x 3 x H x I for each valid slot
        },
        identity=("run_id", "cell_id"),
        required=tuple(_CELL),
    ),
    "workers": Table(
        "One worker process: what it ran on and with.",
        {
            "run_id": TEXT,
            "contestant": TEXT,
            "session": INT,  # workers are restarted every few rounds; 0 is the first
            "recorded_at": TIME,
            "pid": INT,
            "python_version": TEXT,
            "torch_version": TEXT,
            "triton_version": TEXT,
            "package_version": TEXT,  # of the contestant's package
            "source_sha256": TEXT,  # of the contestant's package, where it can be hashed
            "device": TEXT,
            "device_uuid": TEXT,
            "driver_version": TEXT,
            "cuda_version": TEXT,
        },
        identity=("run_id", "contestant", "session"),
        required=("recorded_at",),
    ),
    "samples": Table(
        "Raw timings: one row, one timed execution. All are kept.",
        {
            "run_id": TEXT,
            "cell_id": TEXT,
            "contestant": TEXT,
            "timing_mode": TEXT,  # graph, eager
            "session": pa.int32(),
            "round": pa.int32(),  # counted over the run, so a (round, sample) is unique in a cell and mode
            "position": pa.int32(),  # place of the contestant in the round's shuffled order
            "sample": pa.int32(),
            "time_us": REAL,
            "l2_state": TEXT,  # flushed, warm, none (no such cache: interpreter)
        },
        identity=("run_id", "cell_id", "contestant", "timing_mode", "round", "sample"),
        required=("time_us", "l2_state"),
    ),
    "device_states": Table(
        "The card beside a round.",
        {
            "run_id": TEXT,
            "cell_id": TEXT,
            "timing_mode": TEXT,
            "round": pa.int32(),
            "session": pa.int32(),
            "recorded_at": TIME,
            "sm_clock_mhz": REAL,
            "memory_clock_mhz": REAL,
            "temperature_c": REAL,
            "power_w": REAL,
            "throttle_reasons": TEXT,  # comma separated names, '' for none; NULL unknown
        },
        identity=("run_id", "cell_id", "timing_mode", "round"),
    ),
    "verdicts": Table(
        "Correctness of a contestant in a cell: passed, or refused with a reason. Later rows add to earlier ones.",
        {
            "run_id": TEXT,
            "cell_id": TEXT,
            "contestant": TEXT,
            "timing_mode": TEXT,  # graph, eager, or 'all' for what precedes timing
            "session": pa.int32(),
            "stage": TEXT,  # plan, start, load, prepare, sample, timed-output
            "recorded_at": TIME,
            "status": TEXT,  # passed, refused
            "reason_code": TEXT,  # see producers/outcomes.py
            "fault": TEXT,  # contestant, environment; NULL when passed
            "detail": TEXT,
            "relative_error": REAL,  # |out - ref| / |ref|, Frobenius, float32 reference at the timed shape
            "max_abs_error": REAL,
            "mismatch_share": REAL,  # share of elements outside the tolerance
            "tolerance": REAL,
            "repeatability": TEXT,  # bitwise, tolerance, no; NULL not checked
            "output_sha256": TEXT,
            "inputs_sha256": TEXT,  # of what this worker received
            "config_source": TEXT,  # exact, fallback, default, model, tuned
            "config_json": TEXT,
            "tuned_triton_version": TEXT,
            "launches": INT,  # kernel launches of one call
        },
        identity=("run_id", "cell_id", "contestant", "timing_mode", "session", "stage"),
        required=("recorded_at", "status"),
    ),
    "tuning": Table(
        "One configuration tried for a contestant in a cell: refused with a reason, or timed.",
        {
            "run_id": TEXT,
            "cell_id": TEXT,
            "contestant": TEXT,
            "trial": INT,  # order within the run, the contestant and the cell; 0 is the default's first
            "stage": TEXT,  # screen, narrow, refine, confirm
            "recorded_at": TIME,
            "config_json": TEXT,  # canonical JSON in the contestant's own words
            "is_default": FLAG,  # what runs as shipped
            "chosen": FLAG,  # the best so far when the row was written: the one with the largest trial holds
            "status": TEXT,  # passed, refused
            "reason_code": TEXT,  # see producers/outcomes.py
            "fault": TEXT,  # contestant, environment; NULL when passed
            "detail": TEXT,
            "relative_error": REAL,  # of the timed output, as in verdicts
            "times_us": REALS,  # timed executions of this trial, L2 flushed before each
            "timing_mode": TEXT,  # graph; eager under the interpreter
            "package_version": TEXT,
            "triton_version": TEXT,
        },
        identity=("run_id", "cell_id", "contestant", "trial"),
        required=("stage", "recorded_at", "config_json", "is_default", "chosen", "status"),
    ),
    "predictions": Table(
        "What was expected, written before the measurement that it is about.",
        {
            "prediction_id": TEXT,
            "recorded_at": TIME,
            "device": TEXT,
            "cell_id": TEXT,
            "contestant": TEXT,
            "timing_mode": TEXT,
            "predicted_time_us": REAL,
            "reasoning": TEXT,
        },
        identity=("prediction_id",),
        required=("recorded_at",),
    ),
    "ceilings": Table(
        "Measured limits of a device: memory streams and matrix rates.",
        {
            "run_id": TEXT,
            "ceiling": TEXT,  # read, copy (bytes read plus written), bf16_matmul, int8_matmul
            "repeat": INT,
            "device": TEXT,
            "device_uuid": TEXT,
            "recorded_at": TIME,
            "problem": TEXT,  # bytes streamed, or the product's shape
            "time_us": REAL,
            "bytes_per_s": REAL,
            "ops_per_s": REAL,
        },
        identity=("run_id", "ceiling", "repeat"),
        required=("device", "time_us"),
    ),
    "points": Table(
        "Figures that were not measured here: imported from a tool's file, or published in a text.",
        {
            "import_id": TEXT,  # of imports
            "row": INT,  # place in the source
            "evidence": TEXT,  # imported, published
            "contestant": TEXT,
            "house": TEXT,
            "version": TEXT,  # of the contestant; figures of two versions never make one; NULL unknown
            **_CELL,
            "benchmark": TEXT,  # what the figures are of; no mean is over two of them
            "cell_key": TEXT,  # everything of the source that makes two figures comparable, canonical JSON
            "metric": TEXT,  # time_us, ratio_best_dispatch_over_vllm, tflops ...
            "value": REAL,
            "value_p20": REAL,  # quantiles of the repetitions behind the value, where the source has them
            "value_p80": REAL,
            "lower_is_better": FLAG,
            "device": TEXT,
            "conditions_json": TEXT,
            "status": TEXT,  # unverified, refused
            "reason": TEXT,  # why a value is NULL or refused
        },
        identity=("import_id", "row"),
        required=("evidence", "contestant", "metric", "status"),
    ),
    "tuned_configs": Table(
        "One entry of a tuned fused-MoE table of vLLM or SGLang: the launch parameters for one number of tokens.",
        {
            "import_id": TEXT,  # of imports
            "row": INT,  # place in the source: of two keys equally near, the loaders take the one that stands first
            "source": TEXT,  # name of the file, which is the key that a loader looks up
            "loader": TEXT,  # vllm, sglang: whose spelling the name is; NULL where both spell it so
            "device": TEXT,  # underscores of the name as spaces: 'NVIDIA H200'
            "experts": INT,  # E of the name: on one rank
            "n": INT,  # N of the name: intermediate size on one rank (SGLang's int4 in uint8: half of it)
            "dtype": TEXT,  # fp8_w8a8, int8_w8a16 ...; NULL: that of the activations
            "block_shape": TEXT,  # of block quantisation: '128,128'
            "per_channel_quant": FLAG,
            "down": FLAG,  # tuned for the second product alone
            "tuned_triton_version": TEXT,  # of the file, else of its folder; NULL unknown
            "tokens": INT,  # M
            "block_size_m": INT,
            "block_size_n": INT,
            "block_size_k": INT,
            "group_size_m": INT,
            "num_warps": INT,
            "num_stages": INT,
            "config_json": TEXT,  # the whole entry, with the parameters that have no column
            "metadata_json": TEXT,  # what stands beside the entries in the file
        },
        identity=("import_id", "row"),
        required=("source", "experts", "n", "device", "tokens", "config_json"),
    ),
    "gate_positions": Table(
        "One next-token decision of a candidate beside the stock model's.",
        {
            "run_id": TEXT,
            "config": TEXT,  # stock_vs_stock, naive_bf16, auto_int8_w8a8 ...
            "position": INT,
            "model": TEXT,
            "text_sha256": TEXT,
            "tokens_sha256": TEXT,
            "target_token": INT,
            "reference_top1": INT,
            "candidate_top1": INT,
            "agree": FLAG,
            "reference_gap_logits": REAL,  # reference's logit of its own top-1 minus that of the candidate's
            "reference_nll": REAL,
            "candidate_nll": REAL,
            "layer_drift": REALS,  # relative error of the hidden state after each layer
            "kernel_calls": INT,  # least number of calls of the named kernel over layers
            "context": INT,  # number of the piece of text that the position lies in; no piece sees another
            "place": INT,  # tokens before the position in its piece
            "reference_margin_logits": REAL,  # reference's logit of its top-1 minus that of its top-2
        },
        identity=("run_id", "config", "position"),
        required=("agree",),
    ),
    "gate_configs": Table(
        "One configuration of a gate: measured, refused (it did not run) or void (not what it names was run).",
        {
            "run_id": TEXT,
            "config": TEXT,  # stock_vs_stock, naive_bf16, auto_int8_w8a8 ...
            "attempt": INT,  # a resumed run may try again; the last attempt counts
            "started_at": TIME,
            "recorded_at": TIME,
            "duration_s": REAL,
            "status": TEXT,  # measured, refused, void
            "reason_code": TEXT,  # see producers/outcomes.py
            "fault": TEXT,  # contestant, environment; NULL when measured
            "detail": TEXT,
            "model": TEXT,
            "weights": TEXT,  # trained, upcycled, seeded
            "model_sha256": TEXT,  # of the model's configuration and weights
            "candidate": TEXT,  # stock, naive, persistent, auto
            "precision": TEXT,
            "reference": TEXT,  # stock_bf16, stock_float32
            "reference_sha256": TEXT,  # of the logits of stock in bf16, as each configuration of the run had them
            "positions": INT,
            "context_tokens": INT,  # tokens of a piece
            "text_sha256": TEXT,
            "tokens_sha256": TEXT,
            "kernel_calls": INT,  # least number of calls of the named kernel over layers; NULL for stock
            "calls_json": TEXT,  # layer -> kernel that ran -> calls
            "expert_bytes_before": INT,  # memory of the experts' weights as loaded; NULL where none is quantised
            "expert_bytes_after": INT,  # quantised, with scales
            "peak_memory_bytes": INT,  # of the device; NULL on a CPU
            "torch_version": TEXT,
            "triton_version": TEXT,
            "transformers_version": TEXT,
        },
        identity=("run_id", "config", "attempt"),
        required=("started_at", "recorded_at", "status"),
    ),
    "gate_experts": Table(
        "One expert of one layer alone, on states that the stock model gave it, beside the stock expert.",
        {
            "run_id": TEXT,
            "config": TEXT,
            "attempt": INT,  # of gate_configs
            "layer": TEXT,  # module name of the layer's experts
            "expert": INT,
            "tokens": INT,
            "relative_error": REAL,  # |out - stock| / |stock| of each token, root mean square over tokens
            "gain": REAL,  # <out, stock> / <stock, stock> of each token, median over tokens: 1 where nothing is scaled
        },
        identity=("run_id", "config", "attempt", "layer", "expert"),
        required=("relative_error", "gain"),
    ),
    "decode_configs": Table(
        "One configuration of a decode run: what decodes, and whether its tokens are those of the stock model.",
        {
            "run_id": TEXT,
            "config": TEXT,  # stock_eager_bf16, dispatch_graph_int8_w8a16 ...
            "stage": TEXT,  # check (before it is timed), timing (a refusal while it was timed; adds to the first)
            "recorded_at": TIME,
            "status": TEXT,  # passed, refused
            "reason_code": TEXT,  # see producers/outcomes.py
            "fault": TEXT,  # contestant, environment; NULL when passed
            "detail": TEXT,
            "model": TEXT,
            "weights": TEXT,  # trained, upcycled, seeded
            "tokenizer": TEXT,  # trained, hashed
            "model_sha256": TEXT,  # of the model's configuration and weights
            "experts": TEXT,  # what runs the experts: eager, grouped_mm, dispatch
            "layers": TEXT,  # what runs everything else: transformers, fused
            "precision": TEXT,  # of the experts; everything else is in bfloat16
            "graph": FLAG,
            "cache": TEXT,  # dynamic, static
            "clock": TEXT,  # cuda-events (between steps, the host does not wait), perf-counter
            "prompt_tokens": INT,
            "prompt_sha256": TEXT,
            "reference": TEXT,  # the configuration whose tokens it was given
            "reference_sha256": TEXT,  # of those tokens
            "positions": INT,  # decisions compared, each after the reference's own tokens
            "disagreements": INT,
            "first_disagreement": INT,  # position; NULL without one
            "first_gap_logits": REAL,  # reference's logit of its choice minus that of the candidate's, there
            "largest_gap_logits": REAL,  # over all disagreements
            "large_gaps": INT,  # over gate.large_gap_logits of the policy
            "kernel_calls": INT,  # least number of dispatch's calls over layers; NULL for others
            "kernels": TEXT,  # dispatch's families that ran, comma separated; NULL for others
            "weight_bytes": INT,  # that one step must read
            "peak_memory_bytes": INT,  # of the device up to here; NULL on a CPU
            "torch_version": TEXT,
            "triton_version": TEXT,
            "transformers_version": TEXT,
        },
        identity=("run_id", "config", "stage"),
        required=("recorded_at", "status"),
    ),
    "decode_steps": Table(
        "One decode step at concurrency 1 inside a model.",
        {
            "run_id": TEXT,
            "config": TEXT,
            "repeat": INT,
            "step": INT,
            "model": TEXT,
            "precision": TEXT,
            "graph": FLAG,
            "prompt_sha256": TEXT,
            "output_sha256": TEXT,
            "time_us": REAL,
            "weight_bytes": INT,  # that one step must read
        },
        identity=("run_id", "config", "repeat", "step"),
        required=("time_us",),
    ),
    "serving_runs": Table(
        "One served engine at one load.",
        {
            "serving_id": TEXT,
            "run_id": TEXT,  # of the producer, NULL when imported
            "import_id": TEXT,  # NULL when measured
            "evidence": TEXT,  # measured, imported, published
            "engine": TEXT,
            "engine_version": TEXT,
            "client": TEXT,  # rows of two clients never meet in a ratio
            "client_version": TEXT,
            "model": TEXT,
            "weights": TEXT,  # trained, dummy, upcycled; NULL unknown
            "device": TEXT,
            "device_uuid": TEXT,
            "repeat": INT,
            "max_concurrency": INT,
            "request_rate_per_s": REAL,  # asked; NULL with request_rate_mode 'inf' or 'trace'
            "request_rate_mode": TEXT,  # fixed, inf, trace
            "input_tokens_asked": INT,
            "output_tokens_asked": INT,
            "requests_asked": INT,
            "requests_completed": INT,  # usable successes
            "requests_failed": INT,  # NULL unknown, never 0 for unknown
            "input_tokens": INT,
            "output_tokens": INT,
            "duration_s": REAL,
            "output_tokens_per_s": REAL,
            "requests_per_s": REAL,
            "total_tokens_per_s": REAL,
            "goodput_per_s": REAL,
            "ttft_p50_ms": REAL,
            "ttft_p99_ms": REAL,
            "ttft_mean_ms": REAL,
            "tpot_mean_ms": REAL,
            "tpot_p50_ms": REAL,
            "itl_mean_ms": REAL,
            "itl_unit": TEXT,  # token, chunk
            "e2e_mean_ms": REAL,
            "e2e_p50_ms": REAL,
            "e2e_p99_ms": REAL,
            "seed": INT,
            "prompts_sha256": TEXT,
            "prefix_cache": TEXT,  # off, on, unknown
            "prefix_cache_hits": INT,
            "server_args_json": TEXT,
            "extra_json": TEXT,  # what the source had and this table has no column for
            "status": TEXT,  # passed, refused, unusable
            "reason": TEXT,
            "recorded_at": TIME,
        },
        identity=("serving_id",),
        required=("evidence", "engine", "status"),
    ),
    "serving_requests": Table(
        "One request of a serving run.",
        {
            "serving_id": TEXT,
            "request": INT,
            "ok": FLAG,
            "error": TEXT,
            "input_tokens": INT,
            "output_tokens": INT,
            "ttft_ms": REAL,
            "e2e_ms": REAL,
            "e2e_source": TEXT,  # measured, derived (TTFT plus chunk gaps)
            "tpot_ms": REAL,
            "chunk_gaps_ms": REALS,
            "start_s": REAL,  # from the run's start
        },
        identity=("serving_id", "request"),
        required=("ok",),
    ),
    "costs": Table(
        "Money: a billing record, or a rate.",
        {
            "cost_id": TEXT,
            "run_id": TEXT,
            "recorded_at": TIME,
            "basis": TEXT,  # billing, rate
            "amount_usd": REAL,
            "period_s": REAL,
            "rate_usd_per_h": REAL,
            "covers": TEXT,  # what the amount paid for
            "source": TEXT,
        },
        identity=("cost_id",),
        required=("basis",),
    ),
    "imports": Table(
        "One source that was read in: a tool's file, another lake, a published text.",
        {
            "import_id": TEXT,  # derived from the content, so that a second import adds nothing
            "recorded_at": TIME,
            "format": TEXT,
            "source": TEXT,  # file name or citation, no path of a machine
            "content_sha256": TEXT,
            "records_in": INT,
            "rows_out": INT,
            "refused": INT,
            "refusals_json": TEXT,
            "producer_versions_json": TEXT,
            "note": TEXT,
        },
        identity=("import_id",),
        required=("recorded_at", "format", "source"),
    ),
}


def schema_of(table: str) -> pa.Schema:
    """The Arrow schema of ``table``.

    Raises:
        KeyError: ``table`` is no table of the lake.
    """
    return TABLES[table].schema
