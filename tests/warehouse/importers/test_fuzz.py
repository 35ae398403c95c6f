"""Damaged files of every format: rows and named refusals, and never a traceback, a hang or a record that vanished."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.warehouse.importers.mutate import mutated
from tests.warehouse.importers.other_samples import FACTS
from tests.warehouse.importers.samples import SAMPLES
from warehouse.importers.base import Given
from warehouse.importers.importing import ImportReport, Skipped, import_paths
from warehouse.importers.store import Known

SERVED = ("serving_runs", "serving_requests")


def damaged_import(folder: Path, seed: int) -> str:
    """Import one damaged file of a format drawn from the seed, and return what became of it.

    Half of the files are imported as what they are detected to be, half as what they were.
    """
    draw = random.Random(seed)
    name = draw.choice(list(SAMPLES))
    file_name, content = SAMPLES[name]
    path = folder / file_name
    path.write_bytes(mutated(content, draw))
    lake = folder / "lake"
    report = ImportReport()
    for outcome in import_paths([path], lake, draw.choice((None, name)), Given(**FACTS.get(name, {}))):
        report.outcomes.append(outcome)
    (outcome,) = report.outcomes
    if isinstance(outcome, Skipped):
        assert outcome.reason.endswith("."), outcome.reason
        assert "cannot be read as" not in outcome.reason, outcome.reason  # what an importer did not foresee
        assert report.exit_code(allow_partial=True) in {2, 3}
        assert not lake.exists()
        return "refused"
    named = sum(refusal.records for refusal in outcome.refusals)
    assert all(refusal.place and refusal.reason for refusal in outcome.refusals)
    assert outcome.records_in == sum(outcome.rows.values()) + named > 0
    for row in Known.of(lake).imports.values():
        assert row["records_in"] == row["rows_out"] + row["refused"] == outcome.records_in
    if not named:
        assert report.exit_code(allow_partial=False) == 0
        return "whole"
    return "partial"


def test_damaged_files(tmp_path: Path) -> None:
    found: dict[str, int] = {}
    for seed in range(250):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = damaged_import(folder, seed)
        found[outcome] = found.get(outcome, 0) + 1
    assert min(found.get(outcome, 0) for outcome in ("refused", "partial", "whole")) > 25, found


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path: Path) -> None:
    for seed in range(1000, 11_000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        damaged_import(folder, seed)
