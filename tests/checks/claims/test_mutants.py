"""A small run of the mutation harness; the whole one is ``python -m tests.mutate_claims``."""

from __future__ import annotations

import random

from checks.claims.scan import Scanner
from tests.checks.claims.world import Oracle
from tests.mutate_claims import Mutator, run


def test_every_untrue_mutant_is_caught_and_rewordings_pass(scanner: Scanner, oracle: Oracle) -> None:
    tally = run(scanner, Mutator(oracle, random.Random(7)), mutants=210, rewordings=60)
    assert tally.missed == []
    assert tally.crashed == []
    assert tally.alarms == []
    assert len(tally.mutants) == 21
    assert tally.untrue.total() > 120
