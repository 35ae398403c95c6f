"""Wording that tries to say more than its binding proves, and ways of saying no more than that."""

from __future__ import annotations

import pytest

from checks.claims.model import Verdict
from tests.checks.claims.conftest import Judged
from tests.checks.claims.world import Oracle

C = "deepseek-moe-16b"
B = f"<!-- claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1') -->"
B16 = f"<!-- claim: SELECT beats('vllm', 'dispatch', '{C}/*/*/128') -->"
BOTH = f"<!-- claim: SELECT beats('dispatch', 'vllm,sglang', '{C}/*/*/1') -->"
W = f"<!-- claim: SELECT wins('dispatch', '{C}/*/*/1') -->"
R = f"<!-- claim: SELECT wins('dispatch', '{C}/*/*/1', rivals := 'sglang') -->"
T = f"<!-- = SELECT time_us('dispatch', '{C}/bf16/uniform/1', mode := 'graph') -->"
CELL = (f"{C}/bf16/uniform/1", "graph")
IN = "at 1 token in bf16, uniform routing, graph mode"

# TIME stands for the true time of dispatch in CELL.
OVERSTATED = [
    f"vLLM beats dispatch at 128+ tokens.{B16}",
    f"vLLM beats dispatch at 128 tokens and beyond.{B16}",
    f"vLLM beats dispatch at 128 tokens and larger batches.{B16}",
    f"vLLM beats dispatch at \u2265128 tokens.{B16}",
    f"vLLM beats dispatch at 128 or more tokens.{B16}",
    f"vLLM beats dispatch from 128 tokens on.{B16}",
    f"vLLM beats dispatch at 128 tokens upwards.{B16}",
    f"dispatch beats vLLM and TGI at 1 token.{B}",
    f"dispatch beats vLLM and megablocks at 1 token.{B}",
    f"dispatch and megablocks beat vLLM at 1 token.{B}",
    f"dispatch beats vLLM and every other engine at 1 token.{B}",
    f"dispatch wins over SGLang and everyone else at 1 token.{R}",
    f"dispatch wins over SGLang and vLLM at 1 token.{R}",
    f"dispatch is beaten at 1 token.{W}",
    f"dispatch loses at 1 token.{W}",
    f"dispatch is outperformed at 1 token.{W}",
    f"dispatch is beaten by vLLM at 1 token.{B}",
    f"dispatch beats vLLM at 1 token on 8 GPUs.{B}",
    f"dispatch's p99 beats vLLM's at 1 token.{B}",
    f"dispatch beats vLLM by far in worst-case time at 1 token.{B}",
    f"dispatch takes TIME us{T} per token {IN}.",
    f"dispatch takes TIME us{T} less {IN}.",
    f"dispatch saves TIME us{T} {IN}.",
    f"dispatch takes TIME us{T} more than vLLM {IN}.",
    f"dispatch takes TIME us{T}/layer {IN}.",
    f"dispatch takes a mean TIME us{T} {IN}.",
    f"vLLM takes TIME us{T} {IN}.",
    f"dispatch and vLLM take TIME us{T} {IN}.",
    f"dispatch is TIME us{T} faster {IN}.",
    f"dispatch beats neither vLLM nor SGLang at 1 token.{B}",
    f"It is false that dispatch beats vLLM at 1 token.{B}",
    f"dispatch rarely beats vLLM at 1 token.{B}",
    f"dispatch beats vLLM at 1 token and twice as fast.{B}",
    f"dispatch beats vLLM at one token at any size.{B}",
    f"dispatch beats vLLM at 1 token, whatever the model.{B}",
    f"dispatch and SGLang beat vLLM at 1 token.{B}",
    f"dispatch beats vLLM, SGLang and torch at 1 token.{B}",
    f"dispatch beats vLLM at 1 token on any GPU.{B}",
    f"dispatch beats vLLM at 1 token on B200.{B}",
    f"dispatch beats vLLM in throughput at 1 token.{B}",
    f"dispatch beats vLLM at 1 token end to end.{B}",
    f"Serving with dispatch beats vLLM at 1 token.{B}",
    f"dispatch beats vLLM at 1 token by 40%.{B}",
    f"dispatch beats vLLM at 1 token by a factor of two.{B}",
    f"dispatch crushes vLLM at 1 token and is the best library.{B}",
    f"dispatch beats vLLM at 1 token, 16 tokens.{B}",
    f"dispatch beats vLLM at 1-16 tokens.{B}",
    f"dispatch beats vLLM at 1 token in fp8.{B}",
    f"dispatch beats tuned vLLM at 1 token.{B}",
    f"dispatch-naive beats vLLM at 1 token.{B}",
    f"The naive kernel beats vLLM at 1 token.{B}",
    f"dispatch wins everywhere, also at 1 token.{W}",
    f"dispatch wins at every size, even 1 token.{W}",
    f"At 1 token dispatch wins, and it wins at 128 tokens.{W}",
    f"dispatch wins at 1 token and at 128 tokens too.{W}",
    f"dispatch and vLLM win at 1 token.{W}",
    f"vLLM, like dispatch, wins at 1 token.{W}",
    f"dispatch or vLLM wins at 1 token.{W}",
    f"The winner at 1 token is vLLM.{W}",
    f"The winner at 1 token is not vLLM.{W}",
    f"dispatch wins in 3 of 4 cells at 1 token.{W}",
    f"dispatch wins in three cells at 1 token.{W}",
    f"dispatch wins in sixteen cells at 1 token.{W}",
    f"dispatch ties with vLLM at 1 token.{B}",
    f"dispatch is as fast as vLLM at 1 token.{B}",
    f"dispatch always wins.{W}",
    f"dispatch wins.{W}",
    f"Everyone beats vLLM at 1 token.{B}",
    f"No engine beats dispatch at 1 token.{W}",
    f"dispatch wins at 1 token against all engines on all GPUs.{W}",
    "The new kernel halves the time of vLLM.",
    "vLLM cannot match dispatch.",
    "dispatch leaves vLLM in the dust.",
    "dispatch takes half as long as vLLM.",
    "Nothing comes close to dispatch.",
    "SGLang's lead shrinks.",
    "dispatch gives a 30 % improvement.",
    "We gain 1.4X on vLLM.",
    "Speed-up over vLLM: 1.4.",
    "dispatch: 1.4 times vLLM's speed.",
    "dispatch needs 180 microseconds.",
    "dispatch outdoes all.",
    "the fastest MoE kernel available",
    "vLLM lags.",
    "vLLM is left behind.",
    "dispatch > vLLM at 128 tokens.",
    "dispatch reduces latency by a third against vLLM.",
    "Compared to vLLM, latency drops by 20%.",
    "It runs at 85 % of the roofline.",
    "dispatch dominates.",
    "A clear victory for dispatch over vLLM.",
    "dispatch is unmatched.",
    "Neither vLLM nor SGLang keeps up with dispatch.",
]

PLAIN = [
    f"dispatch beats vLLM at one token.{B}",
    f"For a single token, dispatch outruns vLLM.{B}",
    f"dispatch, our own library, beats vLLM at 1 token.{B}",
    f"On this card, dispatch beats vLLM at 1 token.{B}",
    f"vLLM is left behind by dispatch at 1 token.{B}",
    f"With a batch of 1 token, dispatch beats vLLM.{B}",
    f"In the race, dispatch beats vLLM at 1 token (all routings, both precisions, both modes).{B}",
    f"dispatch's kernel is faster than vLLM's at 1 token.{B}",
    f"At M = 1, dispatch beats vLLM.{B}",
    f"dispatch clearly beats vLLM at 1 token.{B}",
    f"As the table shows, dispatch beats vLLM at 1 token.{B}",
    f"dispatch wins at 1 token, over vLLM and SGLang.{W}",
    f"At 1 token the fastest contestant is dispatch.{W}",
    f"At 1 token, first place goes to dispatch.{W}",
    f"At 1 token, dispatch takes first place.{W}",
    f"dispatch wins all four cells at 1 token.{W}",
    f"dispatch takes TIME \u00b5s{T} {IN}.",
    f"dispatch: TIME us{T} {IN}.",
    f"dispatch finishes in TIME microseconds{T} {IN}.",
    f"A layer takes TIME us{T} with dispatch {IN}.",
    f"Both vLLM and SGLang are slower than dispatch at 1 token.{BOTH}",
    f"dispatch beats both vLLM and SGLang at 1 token.{BOTH}",
]


@pytest.fixture
def time(oracle: Oracle) -> str:
    """The time of dispatch in CELL as it is printed."""
    return f"{oracle.time('dispatch', CELL):.1f}"


@pytest.mark.parametrize("text", OVERSTATED)
def test_a_sentence_that_says_more_than_its_binding_does_not_pass(
    judged: Judged, time: str, text: str
) -> None:
    claims = judged(text.replace("TIME", time))
    assert claims
    assert [c for c in claims if c.verdict is not Verdict.HOLDS]


@pytest.mark.parametrize("text", PLAIN)
def test_other_words_for_the_same_pass(judged: Judged, time: str, text: str) -> None:
    claims = judged(text.replace("TIME", time))
    assert claims
    assert [(c.verdict, c.reason) for c in claims if c.verdict is not Verdict.HOLDS] == []
