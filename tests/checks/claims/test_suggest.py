"""A suggestion is a comment that was tried and holds, or a true statement, never a guess."""

from __future__ import annotations

import re

import pytest

from checks.claims.model import Verdict
from tests.checks.claims.conftest import Judged
from tests.checks.claims.world import Oracle

C = "deepseek-moe-16b"
CELL = (f"{C}/bf16/uniform/1", "graph")
WHERE = "at 1 token in bf16, uniform routing, graph mode"


def suggestion(judged: Judged, text: str) -> str:
    (claim,) = [c for c in judged(text) if c.verdict is Verdict.UNBOUND]
    return claim.suggestion


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("dispatch beats vLLM at 1 token.", f"claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1')"),
        ("vLLM is slower than dispatch at 1 token.", f"claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1')"),
        ("dispatch wins at 16 tokens.", f"claim: SELECT wins('dispatch', '{C}/*/*/16')"),
        (
            "dispatch is level with vLLM at 512 tokens.",
            f"claim: SELECT ties('dispatch', 'vllm', '{C}/*/*/512')",
        ),
    ],
)
def test_what_would_bind_a_true_sentence_is_suggested(judged: Judged, text: str, query: str) -> None:
    shown = suggestion(judged, text)
    assert shown == f"bind it: <!-- {query.replace(C, '*')} -->"
    comment = shown.removeprefix("bind it: ")
    assert {c.verdict for c in judged(f"{text}{comment}")} == {Verdict.HOLDS}


def test_a_number_is_suggested_with_the_macro_of_its_unit(judged: Judged, oracle: Oracle) -> None:
    speedup = f"{oracle.speedup('dispatch', 'vllm', CELL):.2f}x"
    text = f"dispatch is {speedup} faster than vLLM {WHERE}."
    claims = [c for c in judged(text) if c.verdict is Verdict.UNBOUND]
    query = "speedup('dispatch', 'vllm', '*/bf16/uniform/1', mode := 'graph')"
    assert claims[0].suggestion == f"bind it: <!-- = SELECT {query} -->"
    time = f"{oracle.time('sglang', CELL):.1f} us"
    query = "time_us('sglang', '*/bf16/uniform/1', mode := 'graph')"
    assert suggestion(judged, f"SGLang takes {time} {WHERE}.") == f"bind it: <!-- = SELECT {query} -->"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dispatch beats vLLM at 128 tokens.", "nearest true statement: dispatch beats vllm in 0 of 4 cells"),
        ("dispatch wins throughout.", "nearest true statement: dispatch wins 8 of 16 cells"),
        ("vLLM takes 3.5 us at 1 token.", "a figure that is not of this lake"),
        ("humming beats dispatch at 1 token.", "`checks new` writes such a sentence"),
        ("It is faster than every rival.", "`checks new` writes such a sentence"),
    ],
)
def test_what_cannot_hold_is_not_suggested(judged: Judged, text: str, words: str) -> None:
    shown = suggestion(judged, text)
    assert words in shown
    assert "<!-- claim" not in shown
    assert not re.search(r"<!-- =", shown)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"dispatch beats vLLM at 1 token.<!-- claim: SELECT beats('dispach', 'vllm', '{C}/*/*/1') -->", "dispatch"),
        (f"dispatch wins at 1 token.<!-- claim: SELECT wins('dispatch', '{C}/*/*/1', rivals := 'sglnag') -->", "sglang"),
        ("There are 3 us<!-- = SELECT time_us FROM samples WHERE contestant = 'vlmm' -->.", "vllm"),
    ],
)  # fmt: skip
def test_a_misspelt_contestant_is_asked_about(judged: Judged, text: str, meant: str) -> None:
    (claim,) = judged(text)
    assert claim.verdict is not Verdict.HOLDS
    assert f"did you mean '{meant}' where the query says" in claim.reason


def test_a_known_contestant_of_another_lake_is_no_misspelling(judged: Judged) -> None:
    (claim,) = judged(
        f"Humming beats vLLM at 1 token.<!-- claim: SELECT beats('humming', 'vllm', '{C}/*/*/1') -->"
    )
    assert "did you mean" not in claim.reason
