"""Sentences over figures of another tool's file: compared as points, supported or contradicted, never a win."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.claims.model import Verdict
from tests.checks.claims.conftest import over
from warehouse.append import append
from warehouse.build import build

CELLS = "*/bf16/balanced/16,64"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two engines in two cells; the second engine leads in both."""
    folder = tmp_path_factory.mktemp("imported")
    times = {"vllm": (10.0, 20.0), "sglang": (5.0, 16.0)}
    rows = [
        {
            "import_id": "aiconfigurator:1",
            "row": 2 * i + j,
            "evidence": "imported",
            "contestant": name,
            "house": name,
            "version": "1.0",
            "precision": "bf16",
            "routing": "balanced",
            "tokens": tokens,
            "benchmark": "aiconfigurator moe",
            "cell_key": f'{{"num_tokens":{tokens}}}',
            "metric": "time_us",
            "value": values[j],
            "lower_is_better": True,
            "device": "NVIDIA H200",
            "status": "unverified",
        }
        for i, (name, values) in enumerate(times.items())
        for j, tokens in enumerate((16, 64))
    ]
    append(folder / "lake", "points", rows)
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


@pytest.mark.parametrize(
    ("ahead", "behind", "verdict"),
    [("SGLang", "vLLM", Verdict.HOLDS), ("vLLM", "SGLang", Verdict.FALSE)],
)
def test_a_comparison_is_supported_or_contradicted(
    imported: Path, ahead: str, behind: str, verdict: Verdict
) -> None:
    query = (
        f"published_beats('{ahead.lower()}', '{behind.lower()}', cells := '{CELLS}', "
        "metric_name := 'time_us', expected := 2)"
    )
    text = f"{ahead} is faster than {behind} in bf16 with balanced routing at 16 and 64 tokens.<!-- claim: SELECT {query} -->"
    (claim,) = (claim for claim in over(imported, text) if claim.query)
    assert claim.verdict is verdict, claim.reason


def test_a_ratio_is_that_of_its_one_cell(imported: Path) -> None:
    query = "published_speedup('sglang', 'vllm', 'time_us', cells := '*/bf16/balanced/64')"
    for printed, verdict in (("1.25x", Verdict.HOLDS), ("1.35x", Verdict.FALSE)):
        text = f"SGLang is {printed}<!-- = SELECT {query} --> faster than vLLM in bf16 with balanced routing at 64 tokens."
        (claim,) = (claim for claim in over(imported, text) if claim.query)
        assert claim.verdict is verdict, claim.reason


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (
            "The geometric mean of SGLang's speedup over vLLM is 1.58x<!-- = SELECT "
            "published_geomean_speedup('sglang', 'vllm', 'time_us', 2) -->.",
            Verdict.HOLDS,
        ),
        (
            "The geometric mean of SGLang's speedup over vLLM is 1.63x<!-- = SELECT "
            "published_geomean_speedup('sglang', 'vllm', 'time_us', 2) -->.",
            Verdict.FALSE,
        ),
        (
            "The geometric mean of SGLang's speedup over vLLM is 1.58x<!-- = SELECT "
            "published_geomean_speedup('sglang', 'vllm', 'time_us', 3) -->.",
            Verdict.UNJUDGED,
        ),
        (
            "SGLang is faster than vLLM in 2<!-- = SELECT "
            "published_beats_count('sglang', 'vllm', 'time_us', 2) --> of 2 cells.",
            Verdict.HOLDS,
        ),
        (
            "vLLM is faster than SGLang in 1<!-- = SELECT "
            "published_beats_count('vllm', 'sglang', 'time_us', 2) --> of 2 cells.",
            Verdict.FALSE,
        ),
    ],
)
def test_means_and_counts_are_over_as_many_cells_as_they_say(
    imported: Path, text: str, verdict: Verdict
) -> None:
    claims = [claim for claim in over(imported, text) if claim.query]
    assert [claim.verdict for claim in claims] == [verdict], claims


def test_counts_and_means_bind_by_the_summary(imported: Path) -> None:
    where = "FROM points_summary WHERE contestant = 'sglang' AND benchmark = 'aiconfigurator moe'"
    for printed, verdict in (("2", Verdict.HOLDS), ("3", Verdict.FALSE)):
        text = f"Both tables share {printed}<!-- = SELECT shared_cells {where} --> cells."
        (claim,) = (claim for claim in over(imported, text) if claim.query)
        assert claim.verdict is verdict, claim.reason


def test_an_imported_figure_is_never_a_win(imported: Path) -> None:
    text = "SGLang wins over vLLM in bf16 with balanced routing at 64 tokens.<!-- claim: SELECT wins('sglang', '*/bf16/balanced/64') -->"
    (claim,) = (claim for claim in over(imported, text) if claim.query)
    assert claim.verdict in {Verdict.UNJUDGED, Verdict.REJECTED}
