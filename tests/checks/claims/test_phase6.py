"""The founding document: six statements over its own figures, as published evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.claims.model import Verdict
from tests.checks.claims import phase6
from tests.checks.claims.conftest import over
from warehouse.build import build

# Each statement in the document's own wording -> the query that binds it, the verdict's reason.
BINDINGS = {
    "vLLM beats dispatch at every one of the 28 measured combinations": (
        "claim: SELECT published_beats('vllm', 'dispatch', cells := '*/*/*/*', metric_name := 'time_over_vllm', expected := 28)",
        "published figures cover 16 of 28 cells, and support it there",
    ),
    "dispatch wins at int8 128 and 512 tokens": (
        "claim: SELECT published_beats('dispatch', NULL, cells := '*/int8/*/128,512', expected := 4)",
        "vllm is ahead by time_ms (1.321x",
    ),
    "dispatch beats SGLang at 128 and 512 tokens in bf16 and int8": (
        "claim: SELECT published_beats('dispatch', 'sglang', cells := '*/bf16,int8/*/128,512', expected := 4)",
        "published figures cover 1 of 4 cells, and support it there",
    ),
    "top-1 agreement is 97.1 to 97.3 percent": (
        "= SELECT published_range('naive_bf16,persistent_bf16,int8', 'top1_agreement_percent')",
        "the lake gives 97.104, 97.297",
    ),
    "dispatch decodes about 1.8x faster than stock": (
        "= SELECT published_speedup('dispatch', 'stock', 'decode_tokens_per_s')",
        "the lake gives 1.7725",
    ),
    "vLLM leads SGLang by 6 to 9 percent throughout": (
        "claim: SELECT published_beats('vllm', 'sglang')",
        "sglang is ahead by",
    ),
}
VERDICTS = {"true": Verdict.HOLDS, "false": Verdict.FALSE, "could_not_judge": Verdict.UNJUDGED}


@pytest.fixture(scope="module")
def figures(shared_cases: Path) -> dict[str, Any]:
    """The reference file's content."""
    content: dict[str, Any] = json.loads(
        (shared_cases.parent / "reference" / "phase6.json").read_text(encoding="utf-8")
    )
    return content


@pytest.fixture(scope="module")
def founding(figures: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that holds nothing but the published figures."""
    folder = tmp_path_factory.mktemp("phase6")
    phase6.write(folder / "lake", figures)
    build([folder / "lake"], folder / "warehouse.db")
    return folder / "warehouse.db"


def test_the_six_statements_get_their_verdicts_with_reasons(figures: dict[str, Any], founding: Path) -> None:
    assert {s["text"] for s in figures["statements"]} == set(BINDINGS)
    for statement in figures["statements"]:
        query, reason = BINDINGS[statement["text"]]
        text = statement["text"]
        if query.startswith("="):  # behind the number
            number = next(n for n in ("97.1 to 97.3 percent", "1.8x") if n in text)
            text = text.replace(number, f"{number}<!-- {query} -->")
        else:
            text = f"{text}<!-- {query} -->"
        bound = [c for c in over(founding, f"{text}.") if c.query]
        assert [c.verdict for c in bound] == [VERDICTS[statement["verdict"]]], (text, bound)
        assert reason in bound[0].reason


def test_published_figures_are_never_a_win(founding: Path) -> None:
    for query in ("wins('dispatch', '*/int8/*/128')", "beats('dispatch', 'sglang', '*/int8/*/128')"):
        (claim,) = over(
            founding, f"dispatch wins over SGLang at int8 128 tokens.<!-- claim: SELECT {query} -->"
        )
        assert claim.verdict in {Verdict.UNJUDGED, Verdict.REJECTED}


def test_the_statement_about_the_one_published_cell_is_supported_and_its_opposite_contradicted(
    founding: Path,
) -> None:
    query = (
        "published_beats('{}', 'sglang', cells := '*/int8/*/128', metric_name := 'time_ms', expected := 1)"
    )
    (right,) = over(
        founding,
        f"dispatch is faster than SGLang at int8 128 tokens.<!-- claim: SELECT {query.format('dispatch')} -->",
    )
    assert (right.verdict, right.reason.partition(":")[0]) == (
        Verdict.HOLDS,
        "supported by published figures",
    )
    wrong = "published_beats('sglang', 'dispatch', cells := '*/int8/*/128', metric_name := 'time_ms', expected := 1)"
    (claim,) = over(
        founding, f"SGLang is faster than dispatch at int8 128 tokens.<!-- claim: SELECT {wrong} -->"
    )
    assert claim.verdict is Verdict.FALSE
