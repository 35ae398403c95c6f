"""The kernels inside language models: the gate and decode."""

from __future__ import annotations

from warehouse.schema.columns import FLAG, INT, REAL, REALS, TEXT, TIME, Table

TABLES: dict[str, Table] = {
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
}
