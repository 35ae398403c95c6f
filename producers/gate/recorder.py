"""What a gate writes to the lake, beside what every run writes.

The order is the contract: policy and run first; of a configuration its experts, its row, then its positions,
whose file is what makes the configuration done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from producers.errors import PeerError
from producers.gate.plan import GateConfig
from producers.outcomes import REASONS, fault_of
from producers.recorder import Recorder, scrub
from warehouse.append import append
from warehouse.schema import SCHEMA_VERSION, schema_of

Row = dict[str, Any]
Columns = Mapping[str, np.ndarray[Any, Any]]

_SUBJECT = (
    "model",
    "weights",
    "model_sha256",
    "positions",
    "context_tokens",
    "text_sha256",
    "tokens_sha256",
    "reference_sha256",
    "torch_version",
    "triton_version",
    "transformers_version",
)
_SHOWN_LAYERS = 3
_MEASURED = ("duration_s", "kernel_calls", "expert_bytes_before", "expert_bytes_after", "peak_memory_bytes")


class GateRecorder(Recorder):
    """Appends the rows of one gate to one lake."""

    def __init__(self, lake: Path, run_id: str, next_event: int = 0) -> None:
        super().__init__(lake, run_id, next_event, producer="gate")

    def measured(
        self, row: Row, experts: Sequence[Mapping[str, Any]], columns: Columns, context: int
    ) -> None:
        """A configuration that ran: everything of it. When this returns, it is in the lake for good."""
        identity = {name: row[name] for name in ("run_id", "config", "attempt")}
        self._append("gate_experts", [{**identity, **expert} for expert in experts])
        self._append("gate_configs", [row])
        append(self.lake, "gate_positions", positions(row, columns, context))

    def refused(self, row: Row) -> None:
        """A configuration that did not run."""
        self._append("gate_configs", [row])

    def row(
        self,
        config: GateConfig,
        attempt: int,
        started_at: datetime,
        subject: Mapping[str, Any],
        answer: Mapping[str, Any] | PeerError,
    ) -> Row:
        """The row of ``gate_configs`` for what a worker answered; ``subject`` says what was run on."""
        common = {
            "run_id": self.run_id,
            "config": config.name,
            "attempt": attempt,
            "started_at": started_at,
            "recorded_at": datetime.now(UTC),
            "candidate": config.candidate,
            "precision": config.precision,
            "reference": config.reference,
            **{name: subject.get(name) for name in _SUBJECT},
        }
        if isinstance(answer, PeerError):
            code = answer.reason_code
            fault = answer.fault or (fault_of(code) if code in REASONS else "environment")
            refusal = {"status": "refused", "reason_code": code, "fault": fault}
            return {**common, **refusal, "positions": 0, "detail": scrub(answer.detail)}
        found = {name: answer.get(name) for name in _MEASURED}
        calls = answer.get("calls")
        found["calls_json"] = None if calls is None else json.dumps(calls, separators=(",", ":"))
        if answer.get("kernel_calls") == 0:
            code = "kernel-not-called"
            void = {"status": "void", "reason_code": code, "fault": fault_of(code)}
            ran = {name: ", ".join(kernels) or "nothing" for name, kernels in (calls or {}).items()}
            shown = "; ".join(f"{name} ran {kernels}" for name, kernels in list(ran.items())[:_SHOWN_LAYERS])
            detail = f"{config.candidate} in {config.precision} was called in no layer or not in all: {shown}"
            return {**common, **found, **void, "detail": scrub(detail)}
        return {**common, **found, "status": "measured"}


def positions(row: Mapping[str, Any], columns: Columns, context: int) -> pa.Table:
    """Rows of ``gate_positions``: what a worker compared, with what ``row`` says of the configuration."""
    size = len(columns["agree"])
    number = np.arange(size)
    constant = {
        "schema_version": SCHEMA_VERSION,
        **{name: row[name] for name in ("run_id", "config", "model", "text_sha256", "tokens_sha256")},
        "kernel_calls": row["kernel_calls"],
    }
    found: dict[str, Any] = {
        **{name: [value] * size for name, value in constant.items()},
        "position": number,
        "context": number // context,
        "place": number % context,
        **columns,
        "layer_drift": list(columns["layer_drift"]),
    }
    schema = schema_of("gate_positions")
    return pa.table(
        [pa.array(found[name], type=schema.field(name).type) for name in schema.names], schema=schema
    )
