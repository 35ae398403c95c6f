"""The race, the search for configurations, and the limits of a device."""

from __future__ import annotations

import pyarrow as pa

from warehouse.schema.columns import CELL, FLAG, INT, REAL, REALS, TEXT, TIME, Table

TABLES: dict[str, Table] = {
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
            **CELL,
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
        required=tuple(CELL),
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
}
