"""What every run and every import has: its policy, its events, what it cost."""

from __future__ import annotations

from warehouse.schema.columns import FLAG, INT, REAL, TEXT, TIME, Table

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
}
