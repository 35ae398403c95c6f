"""What a race will do, from options, device, policy and registry."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from checks.policy import load_policy
from producers.config import read_toml
from producers.contestants import registry
from producers.errors import UsageError
from producers.plan import CONTROL, CPU_DEFAULTS, make_plan
from producers.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]


class H200Policy:
    """The required rivals of an H200, as checks/policy.toml has them."""

    def required(self, device: str, precision: str) -> tuple[str, ...]:
        """Torch races where it has a kernel."""
        assert device == "NVIDIA H200"
        torch = ("torch-grouped",) if precision == "bf16" else ()
        return ("dispatch", "vllm", "sglang", *torch)


def plan_on_h200(baseline=None, interpreters=None, import_paths=None, tables=None, **asked):
    return make_plan(
        asked,
        device="NVIDIA H200",
        cuda=True,
        policy=H200Policy(),
        registry=registry(),
        workloads=WORKLOADS,
        baseline=baseline,
        interpreters=interpreters,
        import_paths=import_paths,
        tables=tables,
    )


def seats(plan, precision):
    return {seat.contestant: (seat.role, seat.entered) for seat in plan.seats if seat.precision == precision}


def test_the_default_on_cuda_is_the_founding_comparison():
    plan = plan_on_h200()

    assert len(plan.cells) == 42
    assert plan.cells[0].cell_id == "deepseek-moe-16b/bf16/uniform/1"
    assert {cell.tokens for cell in plan.cells} == {1, 4, 16, 64, 128, 512, 2048}
    assert plan.modes == ("graph", "eager")
    assert (plan.rounds, plan.sessions) == (12, 6)
    assert seats(plan, "bf16") == {
        "dispatch": ("required", True),
        "dispatch-naive": ("informational", True),
        "dispatch-persistent": ("informational", True),
        "torch-grouped": ("required", True),
        "vllm": ("required", True),
        "sglang": ("required", True),
        CONTROL: ("control", True),
    }
    # Not required in int8 and not named: it would only fill the table with refusals.
    assert "torch-grouped" not in seats(plan, "int8_w8a8")


def test_a_contestant_that_is_named_races_everywhere():
    plan = plan_on_h200(contestant=("dispatch", "torch-grouped", "torch-eager"))

    assert seats(plan, "int8_w8a8")["torch-grouped"] == ("informational", True)
    assert seats(plan, "bf16")["torch-eager"] == ("informational", True)
    assert seats(plan, "bf16")["vllm"] == ("required", False)
    assert [seat.contestant for seat in plan.left_out("bf16")] == ["vllm", "sglang"]


def test_the_control_repeats_dispatch():
    control = next(e for e in plan_on_h200().entrants if e.name == CONTROL)
    ours = next(e for e in plan_on_h200().entrants if e.name == "dispatch")

    assert control.control_of == "dispatch"
    assert (control.implementation, control.options) == (ours.implementation, ours.options)


def test_the_baseline_is_dispatch_from_another_folder():
    plan = plan_on_h200(baseline=("0123456789abcdef" * 2, "folder"))

    entrant = plan.entrants[-1]
    assert (entrant.name, entrant.house, entrant.import_paths) == (
        "dispatch@0123456789ab",
        "dispatch",
        ("folder",),
    )
    assert seats(plan, "int8_w8a8")["dispatch@0123456789ab"] == ("informational", True)


def test_interpreters_and_import_paths_reach_their_entrant():
    plan = plan_on_h200(interpreters={"vllm": "/v/bin/python"}, import_paths={"vllm": ("/a", "/b")})

    placed = {e.name: (e.interpreter, e.import_paths) for e in plan.entrants}
    assert placed["vllm"] == ("/v/bin/python", ("/a", "/b"))
    assert placed["sglang"] == (None, ())


@pytest.mark.parametrize(
    ("glob", "count"),
    [("bf16/zipf/*", 7), ("*/128", 6), ("deepseek-moe-16b/int8_w8a8/uniform/4", 1), ("int8*/zipf/2048", 2)],
)
def test_cells_are_filtered_by_glob(glob, count):
    assert len(plan_on_h200(cells=(glob,)).cells) == count


def test_weights_of_one_precision_stay_side_by_side():
    precisions = [cell.precision for cell in plan_on_h200().cells]

    assert precisions == sorted(precisions, key=("bf16", "int8_w8a16", "int8_w8a8").index)


@pytest.mark.parametrize(("rounds", "sessions"), [(12, 6), (12, 5), (7, 3), (4, 4)])
def test_sessions_share_all_rounds(rounds, sessions):
    plan = plan_on_h200(rounds=rounds, sessions=sessions)

    shared = [list(plan.rounds_of(session)) for session in range(sessions)]
    assert [round_ for part in shared for round_ in part] == list(range(rounds))
    assert min(len(part) for part in shared) >= math.floor(rounds / sessions)
    assert plan.rounds_of(sessions + 1) == plan.rounds_of(1)  # a second card's


def test_the_order_of_a_round_is_shuffled_and_repeatable():
    plan = plan_on_h200(seed=3)
    names = ["a", "b", "c", "d"]
    cell = plan.cells[0]

    orders = [tuple(plan.order(cell, "graph", round_, names)) for round_ in range(48)]
    assert orders == [tuple(plan.order(cell, "graph", round_, names[::-1])) for round_ in range(48)]
    assert all(sorted(order) == names for order in orders)
    assert all({order[place] for order in orders} == set(names) for place in range(4))
    assert orders != [tuple(plan_on_h200(seed=4).order(cell, "graph", r, names)) for r in range(48)]


def test_only_the_control_is_no_race():
    with pytest.raises(UsageError, match="No contestant is left to race"):
        plan_on_h200(contestant=("vllm",), **{"leave-out": ("vllm",)})


def test_the_cpu_default_is_small_and_its_rounds_suffice_for_the_policy():
    assert CPU_DEFAULTS["workload"] == ("interpreter-small",)
    assert CPU_DEFAULTS["mode"] == ("eager",)
    assert CPU_DEFAULTS["rounds"] >= 12
    assert CPU_DEFAULTS["sessions"] >= 4


@pytest.mark.parametrize(
    ("file", "cells", "names"),
    [
        ("main-race.toml", 3 * 2 * 7, {"vllm-tuned", "sglang-tuned", "humming", "triton_kernels"}),
        ("other-models.toml", 4 * 3 * 4, {"vllm", "sglang", "torch-grouped"}),
    ],
)
def test_the_shipped_race_files_are_plans(file: str, cells: int, names: set[str]) -> None:
    asked = read_toml(ROOT / "producers" / "configs" / file)
    plan = make_plan(
        asked, device="NVIDIA H200", cuda=True, policy=load_policy(), registry=registry(), workloads=WORKLOADS
    )
    assert len(plan.cells) == cells
    assert names < {entrant.name for entrant in plan.entrants}
    assert not [seat for seat in plan.seats if not seat.entered]  # nobody whom the policy requires is missing


def test_tables_go_to_the_contestant_that_runs_with_them(tmp_path: Path) -> None:
    names = ("dispatch", "vllm", "vllm-tuned", "sglang", "torch-grouped")
    plan = plan_on_h200(contestant=names, tables={"vllm-tuned": str(tmp_path)})
    options = {entrant.name: dict(entrant.options) for entrant in plan.entrants}
    assert options["vllm-tuned"] == {"tables": str(tmp_path)}
    assert options["vllm"] == {}
    assert {e.name: e.house for e in plan.entrants}["vllm-tuned"] == "vllm"
    for tables, sentence in (
        ({"vllm": str(tmp_path)}, "--tables names 'vllm', who runs as shipped; vllm-tuned has tables."),
        ({"vllm-tuned": str(tmp_path / "no")}, "there is no folder"),
        ({"sglang-tuned": str(tmp_path)}, "'sglang-tuned', who does not take part"),
    ):
        with pytest.raises(UsageError, match=sentence):
            plan_on_h200(contestant=names, tables=tables)
