"""Races with a known right outcome: each has a device of its own, so that one lake and one build hold all.

``expect`` holds columns of ``winners``; ``{0}``, ``{1}`` in a text stand for the identifiers of the
scenario's runs, in the order in which they were run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tests.lakes import POLICY, Entrant, Race, Refusal, control, run_id, trio

CELL = "deepseek-moe-16b/bf16/uniform/128"
FAST = Race(entrants=trio(dispatch=90.0, vllm=100.0, sglang=110.0))
LONE_POLICY = re.sub(r'(bf16 = )\["dispatch", "vllm", "sglang"\]', r'\1["dispatch"]', POLICY)
LONE = (FAST.entrants[0], FAST.entrants[3])


@dataclass(frozen=True)
class Scenario:
    """Some runs of one cell on one device, and what ``winners`` must say about it."""

    name: str
    races: tuple[Race, ...]
    expect: dict[str, object]

    def run_id(self, number: int) -> str:
        """Return the identifier of the scenario's ``number``-th run."""
        return run_id(100 * NAMES.index(self.name) + number)

    def placed(self) -> tuple[Race, ...]:
        """Return the races on the scenario's own device, with identifiers in the order of time."""
        return tuple(
            replace(race, device=self.name, run_id=self.run_id(i)) for i, race in enumerate(self.races)
        )


def changed(name: str, **fields: Any) -> Race:
    """Return :data:`FAST` with ``fields`` of the entrant ``name`` replaced."""
    entrants = tuple(replace(e, **fields) if e.name == name else e for e in FAST.entrants)
    return replace(FAST, entrants=entrants)


def refused(name: str, reason: str, fault: str, **fields: Any) -> Refusal:
    """Return a refusal of ``name``."""
    return Refusal(name, reason, fault, **fields)


def _win(winner: str, text: str, **more: object) -> dict[str, object]:
    return {"outcome": "win", "winner": winner, "outcome_text": text, **more}


def _none(outcome: str, **more: object) -> dict[str, object]:
    return {"outcome": outcome, "winner": None, "house": None, "wins_over_all": False, **more}


SCENARIOS = [
    Scenario(
        "win",
        (FAST,),
        _win(
            "dispatch",
            "win over sglang, vllm",
            house="dispatch",
            runner_up="vllm",
            wins_over_all=True,
            win_holds_wide=True,
            measured="dispatch, sglang, vllm",
            refused=None,
            missing=None,
            rounds=12,
            sessions=6,
        ),
    ),
    Scenario(
        "a rival wins just the same",
        (Race(entrants=trio(dispatch=100.0, vllm=80.0, sglang=95.0)),),
        _win("vllm", "win over dispatch, sglang", house="vllm", runner_up="sglang"),
    ),
    Scenario(
        "the founding error: faster than one of two rivals",
        (Race(entrants=trio(dispatch=100.0, vllm=76.0, sglang=130.0)),),
        _win("vllm", "win over dispatch, sglang"),
    ),
    Scenario(
        "tie",
        (Race(entrants=trio(dispatch=100.0, vllm=99.9, sglang=130.0), noise=0.002),),
        _none("tie", tied="dispatch, vllm", outcome_text="tie: dispatch, vllm"),
    ),
    Scenario(
        "tie of three",
        (Race(entrants=trio(), noise=0.0005),),
        _none("tie", outcome_text="tie: dispatch, sglang, vllm"),
    ),
    Scenario(
        "tie of three, roster in another order",
        (Race(entrants=trio()[::-1], noise=0.0005, seed=1),),
        _none("tie", outcome_text="tie: dispatch, sglang, vllm"),
    ),
    Scenario(
        "between tie and win",
        (Race(entrants=trio(dispatch=100.0, vllm=101.0, sglang=130.0), noise=0.004),),
        _none("inconclusive", leader="dispatch", runner_up="vllm", tied=None),
    ),
    *(
        Scenario(
            f"{name} has no samples",
            (replace(FAST, missing=frozenset({(name, CELL)})),),
            _none("incomplete", missing=f"{name} (no-samples)", margin=None, leader=None),
        )
        for name in ("dispatch", "vllm", "sglang")
    ),
    Scenario(
        "left out on the command line",
        (changed("sglang", entered=False),),
        _none("incomplete", missing="sglang (left-out)"),
    ),
    Scenario(
        "the roster forgets a required rival",
        (replace(FAST, entrants=tuple(e for e in FAST.entrants if e.name != "sglang")),),
        _none("incomplete", missing="sglang (left-out)"),
    ),
    Scenario(
        "the roster demotes a required rival",
        (changed("sglang", role="informational", time_us=50.0),),
        _win("sglang", "win over dispatch, vllm"),
    ),
    *(
        Scenario(
            f"{reason}, the environment's fault",
            (replace(FAST, refusals=(refused("sglang", reason, "environment"),)),),
            _none("incomplete", missing=f"sglang ({reason})"),
        )
        for reason in ("not-installed", "worker-did-not-start", "out-of-memory", "worker-timeout")
    ),
    *(
        Scenario(
            f"{reason}, its own fault",
            (replace(FAST, refusals=(refused("sglang", reason, "contestant"),)),),
            _win("dispatch", f"win over vllm, refused: sglang ({reason})", wins_over_all=False),
        )
        for reason in ("wrong-output", "nan-output", "crashed", "unsupported")
    ),
    Scenario(
        "wrong output in one session sticks",
        (
            Race(
                entrants=trio(dispatch=50.0, vllm=100.0, sglang=110.0),
                refusals=(
                    refused("dispatch", "wrong-output", "contestant", session=2, stage="timed-output"),
                ),
            ),
        ),
        _win("vllm", "win over sglang, refused: dispatch (wrong-output)", wins_over_all=False),
    ),
    Scenario(
        "all rivals refused",
        (replace(FAST, refusals=tuple(refused(n, "nan-output", "contestant") for n in ("vllm", "sglang"))),),
        _none(
            "sole entrant",
            outcome_text="sole entrant: dispatch, refused: sglang (nan-output), vllm (nan-output)",
        ),
    ),
    Scenario(
        "everyone refused",
        (
            replace(
                FAST,
                refusals=tuple(refused(n, "crashed", "contestant") for n in ("dispatch", "vllm", "sglang")),
            ),
        ),
        _none("incomplete", measured=None, missing=None),
    ),
    Scenario(
        "a worker died once and came back",
        (replace(FAST, refusals=(refused("vllm", "worker-died", "environment", session=1),)),),
        _none("incomplete", missing="vllm (too-few-rounds)"),
    ),
    Scenario(
        "a worker died once and enough rounds remain",
        (replace(FAST, rounds=18, refusals=(refused("vllm", "worker-died", "environment", session=1),)),),
        _win("dispatch", "win over sglang, vllm", rounds=15),
    ),
    Scenario("11 rounds", (replace(FAST, rounds=11),), _none("inconclusive", reason="11 of 12 rounds")),
    Scenario("7 rounds", (replace(FAST, rounds=7),), _none("inconclusive", reason="7 of 12 rounds")),
    Scenario("3 sessions", (replace(FAST, sessions=3),), _none("inconclusive", reason="3 of 4 sessions")),
    Scenario(
        "no control",
        (replace(FAST, entrants=FAST.entrants[:3]),),
        _none("inconclusive", reason="no A/A control"),
    ),
    Scenario(
        "no policy",
        (replace(FAST, policy=None),),
        _none("inconclusive", reason="the policy of the run is not in the lake"),
    ),
    Scenario(
        "blocked order",
        (replace(FAST, blocked=True),),
        _none("inconclusive", reason="every round has the same order of contestants"),
    ),
    Scenario(
        "2 % ahead on a quiet machine",
        (Race(entrants=trio(dispatch=98.0), noise=0.001),),
        _win("dispatch", "win over sglang, vllm"),
    ),
    Scenario(
        "2 % ahead and the control is 3 % off",
        (Race(entrants=(*trio(dispatch=98.0)[:3], control(time_us=101.0)), noise=0.001),),
        _none("tie", tied="dispatch, sglang, vllm"),
    ),
    Scenario(
        "ten times ahead and the control is 20 % off",
        (Race(entrants=(*trio(dispatch=10.0)[:3], control(time_us=12.0)), noise=0.001),),
        _none("inconclusive"),
    ),
    Scenario(
        "siblings and informational contestants",
        (
            replace(
                FAST,
                entrants=(
                    *FAST.entrants,
                    Entrant("dispatch-naive", "dispatch", 60.0, role="informational"),
                    Entrant("humming", "humming", 70.0, role="informational"),
                    Entrant("torch-eager", "torch", 500.0, role="informational"),
                ),
            ),
        ),
        _win("dispatch", "win over sglang, vllm", informational_faster="dispatch-naive, humming"),
    ),
    Scenario(
        "two required of one house",
        (replace(FAST, entrants=(*FAST.entrants, Entrant("dispatch-2", "dispatch", 90.1))),),
        _win("dispatch", "win over sglang, vllm", runner_up="vllm"),
    ),
    Scenario(
        "one house only",
        (replace(FAST, policy=LONE_POLICY, entrants=LONE),),
        _none("sole entrant", outcome_text="sole entrant: dispatch"),
    ),
    Scenario(
        "no required rival",
        (
            replace(
                FAST,
                policy=LONE_POLICY,
                entrants=(*LONE, Entrant("humming", "humming", 200.0, role="informational")),
            ),
        ),
        _none("sole entrant", outcome_text="sole entrant: dispatch"),
    ),
    *(
        Scenario(
            f"another {field}",
            (changed("vllm", **{field: value}),),
            _none(
                "incomplete",
                reason=f"conditions differ: {field}: {getattr(FAST.entrants[0], field)} against {value}",
            ),
        )
        for field, value in {
            "torch_version": "2.14.0",
            "triton_version": "3.8.0",
            "device_uuid": "GPU-1",
            "l2_state": "warm",
        }.items()
    ),
    Scenario(
        "times that are not positive",
        (changed("vllm", time_us=0.0),),
        _none("incomplete", missing="vllm (invalid-time)"),
    ),
    Scenario(
        "runs disagree",
        (FAST, Race(entrants=trio(dispatch=100.0, vllm=90.0, sglang=110.0))),
        _none(
            "inconclusive",
            reason="runs disagree: {0} says win of dispatch; {1} says win of vllm",
            runs=2,
            equal_runs=2,
            other_runs=0,
        ),
    ),
    Scenario(
        "an extra contestant does not hide that runs disagree",
        (
            FAST,
            Race(
                entrants=(
                    *trio(dispatch=100.0, vllm=90.0),
                    Entrant("x", "x", 500.0, role="informational"),
                )
            ),
        ),
        _none("inconclusive", reason="runs disagree: {0} says win of dispatch; {1} says win of vllm"),
    ),
    Scenario(
        "a refusal in one of them does not hide that runs disagree",
        (
            FAST,
            Race(
                entrants=trio(dispatch=100.0, vllm=90.0),
                refusals=(refused("sglang", "wrong-output", "contestant"),),
            ),
        ),
        _none("inconclusive", reason="runs disagree: {0} says win of dispatch; {1} says win of vllm"),
    ),
    Scenario(
        "run again until it wins",
        (*(Race(entrants=trio(), noise=0.001, seed=i) for i in range(3)), FAST),
        _none("inconclusive", runs=4, complete_runs=4, run_ids="{0}, {1}, {2}, {3}"),
    ),
    Scenario(
        "another version of a rival",
        (FAST, changed("vllm", package_version="2.0", time_us=80.0)),
        _win("vllm", "win over dispatch, sglang", run_id="{1}", runs=2, equal_runs=1, other_runs=1),
    ),
    Scenario(
        "the newest run is incomplete",
        (FAST, replace(FAST, missing=frozenset({("vllm", CELL)}))),
        _win("dispatch", "win over sglang, vllm", run_id="{0}", runs=2, complete_runs=1),
    ),
]
NAMES = [scenario.name for scenario in SCENARIOS]
