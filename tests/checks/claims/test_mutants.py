"""A small run of the mutation harness; the whole one is ``python -m tests.mutate_claims``."""

from __future__ import annotations

import random
from pathlib import Path

from checks.claims.model import Verdict
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.conftest import PROJECT
from tests.checks.claims.world import WORKLOAD, Oracle
from tests.mutants import own
from tests.mutants.beside import KINDS, BesideMutator, BesideOracle
from tests.mutants.drawing import Tally, run
from tests.mutants.race import RaceMutator


def nothing_gets_through(tally: Tally) -> None:
    assert tally.missed == []
    assert tally.crashed == []
    assert tally.alarms == []


def test_every_untrue_mutant_is_caught_and_rewordings_pass(scanner: Scanner, oracle: Oracle) -> None:
    tally = run(scanner, RaceMutator(oracle, random.Random(7)), mutants=210, rewordings=60)
    nothing_gets_through(tally)
    assert len(tally.mutants) == 21
    assert tally.untrue.total() > 120


def test_beside_the_race_too(beside: Path) -> None:
    sandbox = Sandbox(beside)
    oracle = BesideOracle(beside.parent / "lake")
    assert {s.kind for s in oracle.statements} == set(KINDS)
    mutator = BesideMutator(oracle, random.Random(7))
    tally = run(Scanner(open_judge(PROJECT, sandbox)), mutator, mutants=210, rewordings=60)
    sandbox.close()
    nothing_gets_through(tally)
    assert len(tally.mutants) == 14
    assert tally.untrue.total() > 120


def test_of_a_document_every_bound_number_and_comparison_is_mutated(scanner: Scanner, oracle: Oracle) -> None:
    cell = f"'{WORKLOAD}/bf16/uniform/1', mode := 'graph'"
    ratio = f"{oracle.speedup('dispatch', 'vllm', (f'{WORKLOAD}/bf16/uniform/1', 'graph')):.2f}"
    document = (
        "In graph mode:\n\n| tokens | precision | routing | dispatch |\n|---|---|---|---|\n"
        f"| 1 | bf16 | uniform | {ratio}x<!-- = SELECT speedup('dispatch', 'vllm', {cell}) --> faster than vLLM |\n\n"
        f"dispatch beats vLLM at 1 token.<!-- claim: SELECT beats('dispatch', 'vllm', '{WORKLOAD}/*/*/1') -->\n"
    )
    tally = Tally()
    (table, paragraph) = own.blocks(document)
    for block in (table, paragraph):
        assert {c.verdict for c in scanner.scan("own.md", block)} == {Verdict.HOLDS}
        for mutant in own.mutants(block, oracle):
            own.judge(scanner, mutant, tally)
    nothing_gets_through(tally)
    # 30 steps each way, two of them of one, two below zero; six other numbers of tokens and two other contestants, twice; one turn.
    moved = tally.mutants["last-place"], tally.mutants["number"]
    assert moved == (2, 56)
    assert (tally.mutants["unit"], tally.mutants["unbound"], tally.mutants["bound-elsewhere"]) == (2, 1, 8)
    assert (tally.mutants["statement-unbound"], tally.mutants["statement-elsewhere"]) == (1, 9)
