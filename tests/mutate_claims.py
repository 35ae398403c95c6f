"""Mutate true documents and see whether the gate notices: ``python -m tests.mutate_claims``.

Every mutant is a sentence that an edit could leave behind: a digit moved, a rival renamed, a cell changed in the
words or in the query, a quantifier widened, a binding lost. Oracles over the raw rows (no view, no macro) say whether
what the mutant says is true. Each untrue one has to be caught, each rewording of a true one has to pass. 50 untrue
documents also go through the whole command. The mutants are those of ``tests.mutants``.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims import beside, world
from tests.mutants.beside import BesideMutator, BesideOracle
from tests.mutants.drawing import Mutant, Mutator, Tally, run
from tests.mutants.own import own_documents
from tests.mutants.race import RaceMutator
from warehouse.build import build

PROJECT = Path(__file__).parents[1]


def command(mutants: Sequence[Mutant], db: Path, folder: Path) -> int:
    """Run the whole command on each document alone; return how many were not refused."""
    passed = 0
    (folder / "pyproject.toml").write_text('[tool.checks]\ndocuments = ["*.md"]\n', encoding="utf-8")
    for mutant in mutants:
        (folder / "mutant.md").write_text(mutant.text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "checks", "run", "--suite", "claims", "--db", str(db)],
            cwd=folder,
            env={"PYTHONPATH": str(PROJECT), "PATH": ""},
            capture_output=True,
            check=False,
        )
        passed += done.returncode not in {1, 3}
    return passed


def _worlds(folder: Path, seed: int) -> Iterator[tuple[str, Path, Mutator[Any]]]:
    """Build the two synthetic lakes; yield what they are of, the database and its mutator."""
    lake, db = world.make(folder / "race")
    yield "race", db, RaceMutator(world.Oracle(lake), random.Random(seed))
    beside.make(folder / "beside")
    oracle = BesideOracle(folder / "beside" / "lake")
    yield "beside the race", folder / "beside" / "warehouse.db", BesideMutator(oracle, random.Random(seed))


def _print(tally: Tally) -> None:
    print(tally)
    for mutant in tally.missed[:20]:
        print(f"MISSED {mutant.edit}: {mutant.text}")
    for mutant, error in tally.crashed[:20]:
        print(f"CRASH {error}: {mutant.text}")
    for text, reason in tally.alarms[:20]:
        print(f"ALARM {reason}: {text}")


def main() -> int:
    """Run everything and print the counts; 0 if nothing was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=6000, help="of the race; a third as many beside it")
    parser.add_argument("--rewordings", type=int, default=600)
    parser.add_argument("--command", type=int, default=50, help="documents that go through `checks run`")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    missed, alarmed = 0, False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, (what, db, mutator) in enumerate(_worlds(folder, options.seed)):
            sandbox = Sandbox(db)
            share = 3 if part else 1
            scanner = Scanner(open_judge(PROJECT, sandbox))
            tally = run(scanner, mutator, options.mutants // share, options.rewordings // share)
            sandbox.close()
            print(f"{what}:")
            _print(tally)
            drawn = mutator.draw(4 * options.command // 2)
            untrue = [m for m in drawn if not m.true][: options.command // 2]
            passed = command(untrue, db, folder)
            print(f"{len(untrue)} untrue documents through the command, {passed} passed\n")
            missed += len(tally.missed) + len(tally.crashed) + passed
            alarmed = alarmed or tally.alarm_share > 0.02
        if (PROJECT / "data" / "samples").is_dir():
            build([PROJECT / "data"], folder / "own.db")
            own = own_documents(PROJECT, PROJECT / "data", folder / "own.db")
            print("own documents:")
            _print(own)
            missed += len(own.missed) + len(own.crashed)
    return int(missed > 0 or alarmed)


if __name__ == "__main__":
    sys.exit(main())
