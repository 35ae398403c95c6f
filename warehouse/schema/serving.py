"""Served engines."""

from __future__ import annotations

from warehouse.schema.columns import FLAG, INT, REAL, REALS, TEXT, TIME, Table

TABLES: dict[str, Table] = {
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
}
