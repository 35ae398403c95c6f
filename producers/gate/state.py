"""What the lake already holds of a gate's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from producers import resume
from producers.errors import RefusedError
from producers.gate.plan import CONTROL, GatePlan
from producers.resume import RunState, rows_of
from warehouse.lake import scan

# What has to be the same when a run goes on: the model, what it reads, and what runs it.
_SAME = {
    "model_sha256": "the model",
    "tokens_sha256": "the token ids",
    "context_tokens": "the context",
    "reference_sha256": "what the stock model makes of them",
    "torch_version": "torch",
    "triton_version": "Triton",
    "transformers_version": "transformers",
}


@dataclass
class GateState:
    """A run of the gate as the lake has it.

    Attributes:
        run: its identifier and events.
        attempts: rows of ``gate_configs`` by configuration.
        done: configurations that are not run again: their positions are there, or the refusal is their own fault.
        subject: one row of ``gate_configs`` that ran, None before the first.
    """

    run: RunState
    attempts: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    subject: Mapping[str, Any] | None = None


def find(lake: Path, run_id: str) -> GateState:
    """The gate to resume: by identifier, or the newest that is not finished.

    Raises:
        UsageError: there is no such run, or it is finished.
    """
    state = GateState(resume.find(lake, run_id, "gate"))
    found = scan(lake)
    for row in rows_of(found, "gate_configs", state.run.run_id):
        name = row["config"]
        state.attempts[name] = max(state.attempts.get(name, 0), row["attempt"] + 1)
        if row["status"] == "refused" and row["fault"] == "contestant":
            state.done.add(name)
        if row["reference_sha256"] is not None:
            state.subject = row
    for row in rows_of(found, "gate_positions", state.run.run_id, ("config",), distinct=True):
        state.done.add(row["config"])
    return state


def check_subject(state: GateState, subject: Mapping[str, Any]) -> None:
    """Refuse to go on with another model, other tokens or other versions.

    Raises:
        RefusedError: naming everything that changed.
    """
    if state.subject is None:
        return
    before = state.subject
    changed = [label for name, label in _SAME.items() if before[name] != subject.get(name)]
    if changed:
        raise RefusedError(
            f"Gate '{state.run.run_id}' cannot go on: not as before are {', '.join(changed)}. "
            "Undo that, or start a new gate."
        )


def shortcomings(lake: Path, plan: GatePlan, run_id: str, allowed: int) -> list[str]:
    """What keeps a run from being whole, a phrase each: no clean control, refused, void, missing configurations.

    Args:
        lake: the lake's folder.
        plan: what was to be measured.
        run_id: the run.
        allowed: positions at which the stock model may disagree with itself.
    """
    found = scan(lake)
    last: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows_of(found, "gate_configs", run_id), key=lambda row: int(row["attempt"])):
        last[row["config"]] = row
    phrases = []
    decisions = rows_of(found, "gate_positions", run_id, ("config", "agree"))
    differ = sum(not row["agree"] for row in decisions if row["config"] == CONTROL)
    if differ > allowed:
        phrases.append(
            f"the run is void, because the stock model disagrees with itself at {differ} positions"
        )
    measured = {row["config"] for row in decisions}
    for config in plan.configs:
        attempt = last.get(config.name)
        if attempt is None or (attempt["status"] == "measured" and config.name not in measured):
            phrases.append(f"{config.name} was not measured")
        elif attempt["status"] != "measured":
            phrases.append(f"{config.name} is {attempt['status']} ({attempt['reason_code']})")
    return phrases
