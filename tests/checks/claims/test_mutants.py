"""A small run of the mutation harness; the whole one is ``python -m tests.mutate_claims``."""

from __future__ import annotations

import random
from pathlib import Path

from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.conftest import PROJECT
from tests.checks.claims.world import Oracle
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
    tally = run(Scanner(open_judge(PROJECT, sandbox)), mutator, mutants=195, rewordings=60)
    sandbox.close()
    nothing_gets_through(tally)
    assert len(tally.mutants) == 13
    assert tally.untrue.total() > 120
