"""The registry, an installed contestant of another package, and the contestants that run on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import torch

from producers import contestants
from producers.contestants.base import Contestant, Inputs, load_class, package_sha256
from producers.contestants.torch_eager import TorchEager, expert_loop
from producers.contestants.torch_grouped import TorchGrouped, grouped_moe
from producers.referee import draw_matrix, draw_tokens, quantise, reference
from producers.verify import judge
from producers.workloads import Cell
from tests.producers.peers import ROOT, TIMEOUT_S, TOLERANCE, draw, ready_worker, small_cell, start

BUILT_IN = {
    "dispatch": "dispatch",
    "dispatch-naive": "dispatch",
    "dispatch-persistent": "dispatch",
    "dispatch-control": "dispatch",
    "vllm": "vllm",
    "vllm-tuned": "vllm",
    "sglang": "sglang",
    "sglang-tuned": "sglang",
    "humming": "humming",
    "triton_kernels": "triton_kernels",
    "torch-grouped": "torch",
    "torch-eager": "torch",
    "example": "example",
}


def drawn_inputs(cell: Cell, seed: int = 0) -> Inputs:
    """The tensors of a cell, drawn in this process."""
    shapes = {"w13": (2 * cell.intermediate, cell.hidden), "w2": (cell.hidden, cell.intermediate)}
    drawn = {
        name: torch.stack([draw_matrix(*shape, seed, name, e) for e in range(cell.experts)])
        for name, shape in shapes.items()
    }
    tokens = draw_tokens(cell, seed)
    if not cell.precision.startswith("int8"):
        return Inputs(**tokens, **{name: matrix.to(tokens["x"].dtype) for name, matrix in drawn.items()})
    quantised = {name: [quantise(matrix) for matrix in matrices] for name, matrices in drawn.items()}
    values = {name: torch.stack([pair[0] for pair in pairs]) for name, pairs in quantised.items()}
    scales = {f"{name}_scale": torch.stack([p[1] for p in pairs]) for name, pairs in quantised.items()}
    return Inputs(**tokens, **values, **scales)


def relative_error(output: torch.Tensor, inputs: Inputs) -> float:
    return judge(output, reference(inputs.named(), inputs.named()), 0.01).relative_error


def test_built_in_contestants_and_their_classes() -> None:
    known = contestants.registry()
    assert {name: known[name].house for name in BUILT_IN} == BUILT_IN
    for name, entry in known.items():
        if name in BUILT_IN:
            found = load_class(entry.implementation)
            assert issubclass(found, Contestant)
            assert found.house == entry.house
    assert known["dispatch-control"] == known["dispatch"]


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(
        contestants.UnknownContestantError, match=r"'vlm'; known are dispatch, .*vllm-tuned\.$"
    ):
        contestants.find("vlm")


def test_entry_points_add_and_never_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [("vllm", "evil:Vllm"), ("ours", "a:Ours"), ("house-x/theirs", "b:Theirs")]
    found = EntryPoints(EntryPoint(n, v, contestants.ENTRY_POINT_GROUP) for n, v in named)
    monkeypatch.setattr(contestants, "entry_points", lambda group: found.select(group=group))
    known = contestants.registry()
    assert known["vllm"].implementation == "producers.contestants.vllm:Vllm"
    assert (known["ours"].implementation, known["ours"].house) == ("a:Ours", "ours")
    assert (known["theirs"].implementation, known["theirs"].house) == ("b:Theirs", "house-x")


def test_registry_imports_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from producers.contestants import registry; "
        "import producers.outcomes, producers.workloads; print(len(registry()))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= len(BUILT_IN)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_torch_contestants_are_right(precision: str, tokens: int) -> None:
    cell = small_cell(precision, tokens, routing="zipf")
    inputs = drawn_inputs(cell)
    experts = torch.arange(cell.experts, dtype=torch.int32)
    for output in (grouped_moe(inputs, experts), expert_loop(inputs)):
        assert output.dtype == inputs.x.dtype
        assert relative_error(output, inputs) < TOLERANCE[precision]


@pytest.mark.parametrize("contestant", [TorchGrouped(), TorchEager()])
def test_native_torch_does_not_race_the_interpreter(
    contestant: Contestant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "interpreter" in (contestant.supports(small_cell()) or "")


def test_example_is_right_at_odd_sizes(tmp_path: Path) -> None:
    referee = start("producers.referee", tmp_path)
    worker = None
    for precision in TOLERANCE:
        cell = Cell(f"odd/{precision}/uniform/9", "odd", 5, 3, 67, 35, precision, "uniform", None, 9)
        drawn = draw(referee, tmp_path, cell)
        if worker is None:
            worker = ready_worker(tmp_path, "producers.contestants.example:Example", drawn)
        worker.request("load", TIMEOUT_S, folder=drawn.weights["folder"], precision=precision)
        verdict = worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())["verdicts"]["eager"]
        assert (verdict["status"], verdict["repeatability"]) == ("passed", "bitwise")
    assert worker is not None
    worker.close()
    referee.close()


def test_source_hash_follows_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "hashed_contestant"
    package.mkdir()
    (package / "__init__.py").write_text("A = 1\n")
    first = package_sha256("hashed_contestant")
    (package / "table.json").write_text("{}")
    second = package_sha256("hashed_contestant")
    (package / "notes.txt").write_text("not source")
    assert first != second == package_sha256("hashed_contestant")
    assert package_sha256("no_such_package") is None


def test_installed_third_party_contestant_races(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    source = tmp_path / "source"  # a copy: building writes into the folder
    source.mkdir()
    for name in ("pyproject.toml", "matvec_contestant.py"):
        (source / name).write_text((ROOT / "examples" / "third_party" / name).read_text())
    subprocess.run([*pip, "-t", str(site), str(source)], check=True, capture_output=True)

    code = "from producers.contestants import find; f = find('matvec'); print(f.implementation, f.house)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["matvec_contestant:Matvec", "matvec"]

    referee = start("producers.referee", tmp_path)
    drawn = draw(referee, tmp_path, small_cell(tokens=3))
    referee.close()
    worker = ready_worker(tmp_path, "matvec_contestant:Matvec", drawn, site)
    verdict = worker.request("prepare", TIMEOUT_S, **drawn.prepare_fields())["verdicts"]["eager"]
    worker.close()
    assert verdict["status"] == "passed"
