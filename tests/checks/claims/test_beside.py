"""Sentences about the gate, about decode inside a model and about served engines, bound by their macros."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.claims.model import Claim, Verdict
from checks.claims.sandbox import Sandbox
from checks.claims.scan import Scanner, open_judge
from tests.checks.claims.conftest import PROJECT, Judged, over
from tests.evidence import write_decode, write_gate, write_serving
from tests.lakes import Race, write
from warehouse.build import build


@pytest.fixture(scope="module")
def judged(beside: Path) -> Iterator[Judged]:
    sandbox = Sandbox(beside)
    scanner = Scanner(open_judge(PROJECT, sandbox))
    yield lambda text: list(scanner.scan("doc.md", text))
    sandbox.close()


def number(sentence: str, query: str) -> str:
    """``sentence`` with the comment at its mark."""
    return sentence.replace("#", f"<!-- = SELECT {query} -->")


def only(claims: list[Claim]) -> Claim:
    (claim,) = claims
    return claim


AGREEMENT = "agreement('auto_int8_w8a8')"
RATE = "decode_tokens_per_second('dispatch_bf16')"
FASTER = "decode_speedup('dispatch_bf16', 'stock_eager_bf16')"
SERVED = "tokens_per_second('vllm', 4)"
AHEAD = "serving_speedup('sglang', 'vllm', 4, 'output_tokens_per_s')"
COST = "cost_per_m_output_tokens('vllm', 4)"

HOLDS = [
    ("In int8_w8a8, auto agrees with the stock model at 98.07%# of positions.", AGREEMENT),
    ("auto_int8_w8a8 was compared at 1,036# positions.", "positions('auto_int8_w8a8')"),
    ("dispatch_bf16 decodes 396# tokens/s.", RATE),
    ("Inside the model dispatch_bf16 is 1.60x# faster than stock_eager_bf16.", FASTER),
    ("At concurrency 4 vLLM serves 356.4 tokens/s#.", SERVED),
    ("In throughput SGLang is 1.22x# faster than vLLM at concurrency 4.", AHEAD),
    ("vLLM costs $2.81# per million output tokens at concurrency 4.", COST),
    ("After a prompt of 128 tokens, at batch size 1, dispatch_bf16 decodes 396# tokens/s.", RATE),
]


@pytest.mark.parametrize(("sentence", "query"), HOLDS)
def test_true_figures_hold(judged: Judged, sentence: str, query: str) -> None:
    claims = judged(number(sentence, query))
    assert [(c.verdict, c.reason) for c in claims if c.verdict is not Verdict.HOLDS] == []
    assert claims


WRONG = [
    # the number, by one unit in its last place, and the unit
    ("In int8_w8a8, auto agrees with the stock model at 98.08%# of positions.", AGREEMENT, "stands for"),
    ("dispatch_bf16 decodes 397# tokens/s.", RATE, "stands for"),
    ("dispatch_bf16 decodes 396# ms.", RATE, "prints ms"),
    ("At concurrency 4 vLLM serves 356.3 tokens/s#.", SERVED, "stands for"),
    ("vLLM costs $2.82# per million output tokens at concurrency 4.", COST, "stands for"),
    # who
    ("In int8_w8a16, auto agrees with the stock model at 98.07%# of positions.", AGREEMENT, "has to name"),
    ("naive agrees with the stock model at 98.07%# of positions in int8_w8a8.", AGREEMENT, "has to name"),
    ("dispatch_graph_bf16 decodes 396# tokens/s.", RATE, "is about dispatch_graph_bf16"),
    ("At concurrency 4 SGLang serves 356.4 tokens/s#.", SERVED, "is about sglang"),
    # at which load, where
    ("At concurrency 1 vLLM serves 356.4 tokens/s#.", SERVED, "has to say concurrency 4"),
    ("vLLM serves 356.4 tokens/s#.", SERVED, "has to say concurrency 4"),
    ("On the A100 dispatch_bf16 decodes 396# tokens/s.", RATE, "the sentence says a100"),
    ("For Mixtral dispatch_bf16 decodes 396# tokens/s.", RATE, "the sentence says mixtral"),
    (
        "At concurrency 4 vLLM serves 712.8 tokens/s#.",
        "tokens_per_second('vllm', '4) * (2')",
        "without quotes",
    ),
    # in which direction, in what
    ("Inside the model stock_eager_bf16 is 1.60x# faster than dispatch_bf16.", FASTER, "is not ahead of"),
    ("In throughput vLLM is 1.22x# faster than SGLang at concurrency 4.", AHEAD, "is not ahead of"),
    ("SGLang is 1.22x# faster than vLLM at concurrency 4.", AHEAD, "has to say what the query is about"),
    ("In cost SGLang is 1.22x# ahead of vLLM at concurrency 4.", AHEAD, "has to say what the query is about"),
    ("In TTFT SGLang is 1.22x# ahead of vLLM at concurrency 4.", AHEAD, "has to say what the query is about"),
    # a neighbour of the figure
    (
        "In int8_w8a8, auto disagrees with the stock model at 98.07%# of positions.",
        AGREEMENT,
        "has to say what",
    ),
    (
        "auto_int8_w8a8 agrees with the stock model at 1,036# positions.",
        "positions('auto_int8_w8a8')",
        "'agree'",
    ),
    ("dispatch_bf16 prefills 396# tokens/s.", RATE, "has to say what"),
    ("At concurrency 4 vLLM answers in 26.2 ms#.", "ttft_ms('vllm', 4)", "has to say what"),
    ("vLLM costs $2.81# per thousand output tokens at concurrency 4.", COST, "has to say what"),
    (
        "In TTFT SGLang is 1.22x# ahead of vLLM at concurrency 4.",
        "serving_speedup('sglang', 'vllm', 4, 'ttft_p99_ms')",
        "no sentence can tell",
    ),
    # another kind of evidence
    ("In throughput SGLang is 1.60x# faster than vLLM at concurrency 4.", FASTER, "has to say what"),
]


@pytest.mark.parametrize(("sentence", "query", "reason"), WRONG)
def test_what_a_figure_does_not_say_is_caught(judged: Judged, sentence: str, query: str, reason: str) -> None:
    claim = only([c for c in judged(number(sentence, query)) if c.kind.value == "number"])
    assert claim.verdict in {Verdict.FALSE, Verdict.REJECTED}
    assert reason in claim.reason


@pytest.mark.parametrize(
    ("sentence", "query", "verdict"),
    [
        ("Inside the model dispatch_bf16 is faster than stock_eager_bf16.", "decode_beats('dispatch_bf16', 'stock_eager_bf16')", Verdict.HOLDS),
        ("Inside the model stock_eager_bf16 is faster than dispatch_bf16.", "decode_beats('stock_eager_bf16', 'dispatch_bf16')", Verdict.FALSE),
        ("SGLang beats vLLM in throughput at concurrency 4.", "serving_beats('sglang', 'vllm', 4, 'output_tokens_per_s')", Verdict.HOLDS),
        ("SGLang beats vLLM in throughput at concurrency 4.", "serving_beats('sglang', 'vllm', 4, 'ttft_p50_ms')", Verdict.REJECTED),
        ("SGLang beats vLLM at concurrency 4.", "beats('sglang', 'vllm', 'deepseek-moe-16b/*/*/*')", Verdict.FALSE),
        ("dispatch wins as a served engine.", "wins('dispatch', 'deepseek-moe-16b/*/*/*')", Verdict.FALSE),
    ],
)  # fmt: skip
def test_comparisons_bind_through_the_macro_of_their_own_kind(
    judged: Judged, sentence: str, query: str, verdict: Verdict
) -> None:
    assert only(judged(f"{sentence}<!-- claim: SELECT {query} -->")).verdict is verdict


SAID_OF_MORE = [
    ("auto_int8_w8a8 agrees with vLLM at 98.07%# of positions.", AGREEMENT),
    ("auto_int8_w8a8 agrees with the stock model at 98.07%# of prompts.", AGREEMENT),
    ("auto_int8_w8a8 agrees with the stock model at 98.07%# of 100,000 positions.", AGREEMENT),
    ("Every int8 configuration, so auto_int8_w8a8, agrees with stock at 98.07%# of positions.", AGREEMENT),
    ("auto_int8_w8a8 passed the gate at 1,036# positions.", "positions('auto_int8_w8a8')"),
    ("auto_int8_w8a8 flips 1,036# positions.", "positions('auto_int8_w8a8')"),
    ("dispatch_bf16 decodes 396# tokens/s at batch 8.", RATE),
    ("dispatch_bf16 decodes 396# tokens/s under CUDA graphs.", RATE),
    ("dispatch_bf16 decodes 396# tokens/s in int8.", RATE),
    ("dispatch_bf16 decodes 396# tokens/s on a TPU.", RATE),
    ("dispatch_bf16 decodes 396# tokens a minute.", RATE),
    ("dispatch_bf16 decodes up to 396# tokens/s.", RATE),
    ("After a prompt of 100,000 tokens dispatch_bf16 decodes 396# tokens/s.", RATE),
    ("Inside the model dispatch_bf16 is always 1.60x# faster than stock_eager_bf16.", FASTER),
    ("At concurrency 4 vLLM serves each user 356.4 tokens/s#.", SERVED),
    ("At concurrency 4, 16 and 64 vLLM serves 356.4 tokens/s#.", SERVED),
    ("At concurrency 4 vLLM 0.99 serves 356.4 tokens/s#.", SERVED),
    ("At concurrency 4 vLLM serves 356.4 tokens/s# in fp8.", SERVED),
    ("At concurrency 4 vLLM earns $2.81# per million output tokens.", COST),
    ("vLLM costs $2.81# per 10 million output tokens at concurrency 4.", COST),
    ("vLLM costs €2.81# per million output tokens at concurrency 4.", COST),
    ("In prefill throughput SGLang is 1.22x# faster than vLLM at concurrency 4.", AHEAD),
    ("In throughput per dollar SGLang is 1.22x# faster than vLLM at concurrency 4.", AHEAD),
    ("In throughput SGLang is 1.22x# faster than vLLM at concurrency 4 and above.", AHEAD),
    ("vLLM failed in 0# requests.", "sum(requests_failed) FROM serving_runs WHERE engine = 'sglang'"),
    ("auto_bf16 differs at 0# positions.", "count(*) FILTER (NOT agree) FROM gate_positions WHERE config = 'stock_vs_stock'"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "query"), SAID_OF_MORE)
def test_a_true_figure_told_of_more_or_of_something_else_is_caught(
    judged: Judged, sentence: str, query: str
) -> None:
    found = [c.verdict for c in judged(number(sentence, query)) if c.kind.value == "number"]
    assert len(found) == 1
    assert found[0] in {Verdict.FALSE, Verdict.REJECTED}


PLAIN = [
    ("On 1,036 positions auto_int8_w8a8 agrees with the stock model at 98.07%#.", AGREEMENT),
    ("For 98.07%# of all positions, auto_int8_w8a8 picked the stock model's top-1 choice: agreement.", AGREEMENT),
    ("With CUDA graphs, dispatch_graph_bf16 decodes 792# tokens a second.", "decode_tokens_per_second('dispatch_graph_bf16')"),
    ("The median decode throughput of dispatch_bf16 is 396# tokens/s.", RATE),
    ("With 4 clients in parallel, vLLM's throughput is 356.4 output tokens/s#.", SERVED),
    ("At concurrency 4 vLLM's price is $2.81# per 1M output tokens.", COST),
    ("SGLang has 1.22x# higher throughput than vLLM at concurrency 4.", AHEAD),
    ("vLLM has 1.22x# lower throughput than SGLang at concurrency 4.", AHEAD),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "query"), PLAIN)
def test_plain_words_for_the_same_figure_hold(judged: Judged, sentence: str, query: str) -> None:
    assert {c.verdict for c in judged(number(sentence, query))} == {Verdict.HOLDS}


@pytest.mark.parametrize(
    "sentence",
    [
        "auto_int8_w8a8 agrees with stock at every position.",
        "dispatch gives the same tokens as stock.",
        "dispatch's int8 is lossless.",
        "auto_int8_w8a8 is better than naive_bf16.",
        "The widest gap of auto_bf16 is 0.2 logits.",
        "SGLang serves 110 tokens a second.",
        "SGLang serves 6,600 tokens a minute.",
        "SGLang costs 199 cents per million output tokens.",
        "SGLang costs €1.99 per million output tokens.",
        "SGLang costs less than vLLM.",
        "SGLang has higher throughput than vLLM.",
        "SGLang has a shorter TTFT than vLLM.",
        "Nobody serves more tokens than SGLang.",
    ],
)
def test_what_is_bound_to_nothing_is_found(judged: Judged, sentence: str) -> None:
    assert Verdict.UNBOUND in {c.verdict for c in judged(sentence)}


def test_what_the_policy_gives_is_no_figure(judged: Judged) -> None:
    assert judged("The widest gap of auto_bf16 stays under the policy's 1.0 logit.") == []


def test_without_three_repeats_nobody_is_ahead(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", Race())
    write_decode(lake, {"stock_eager_bf16": 250.0, "dispatch_bf16": 400.0}, repeats=2)
    write_serving(lake, {"vllm": 90.0, "sglang": 110.0}, repeats=2)
    build([lake], tmp_path / "w.db")
    ahead = only(
        over(
            tmp_path / "w.db",
            number("In throughput SGLang is 1.22x# faster than vLLM at concurrency 4.", AHEAD),
        )
    )
    assert ahead.verdict is Verdict.FALSE
    assert "too close to call" in ahead.reason
    for sentence, query in (
        ("Inside the model dispatch_bf16 is 1.60x# faster than stock_eager_bf16.", FASTER),
        ("Inside the model dispatch_bf16 is 1.60x# as fast as stock_eager_bf16.", FASTER),
        ("dispatch_bf16 decodes 398# tokens/s.", RATE),
    ):
        claim = only(over(tmp_path / "w.db", number(sentence, query)))
        assert claim.verdict is Verdict.UNJUDGED
        assert "repeated less often than the policy asks" in claim.reason


def test_what_was_void_or_refused_says_nothing(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", Race())
    write_gate(lake, voided=("auto_bf16",))
    write_serving(lake, {"vllm": 90.0}, status="refused", reason="no health")
    build([lake], tmp_path / "w.db")
    for sentence, query in (
        ("auto_bf16 agrees with the stock model at 99.9%# of positions.", "agreement('auto_bf16')"),
        ("At concurrency 4 vLLM serves 356.4 tokens/s#.", SERVED),
    ):
        assert only(over(tmp_path / "w.db", number(sentence, query))).verdict is Verdict.UNJUDGED


def test_of_several_models_the_sentence_names_the_one_that_is_meant(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", Race())
    write_gate(lake, number=100, model="upcycled-smollm2", disagreements={"auto_bf16": 5})
    write_gate(lake, number=101, model="deepseek-moe-16b")
    write_gate(lake, number=102, model="upcycled-smollm2", device="Other GPU")
    build([lake], tmp_path / "w.db")

    def verdicts(sentence: str, arguments: str) -> list[Verdict]:
        return [
            c.verdict for c in over(tmp_path / "w.db", number(sentence, f"agreement('auto_bf16'{arguments})"))
        ]

    said = "auto_bf16 agrees with the stock model at 99.5%# of positions"
    meant = ", model_name := 'upcycled-smollm2', device_name := 'Test GPU'"
    assert verdicts(f"{said} for upcycled-smollm2 on the Test GPU.", meant) == [Verdict.HOLDS]
    assert verdicts(f"{said} for upcycled-smollm2.", meant) == [Verdict.REJECTED]
    assert verdicts(f"{said} on the Test GPU.", meant) == [Verdict.REJECTED]
    assert verdicts(f"{said} for deepseek-moe-16b on the Test GPU.", meant) == [Verdict.REJECTED]
    assert verdicts(f"{said}.", "") == [Verdict.REJECTED]


def test_an_engine_in_two_versions_is_ahead_only_in_both(tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", Race())
    write_serving(lake, {"vllm": 90.0, "sglang": 110.0})
    write_serving(lake, {"sglang": 80.0}, number=301, engine_version="0.9")
    build([lake], tmp_path / "w.db")
    query = "serving_beats('sglang', 'vllm', 4, 'output_tokens_per_s')"
    said = f"SGLang beats vLLM in throughput at concurrency 4.<!-- claim: SELECT {query} -->"
    claim = only(over(tmp_path / "w.db", said))
    assert claim.verdict is Verdict.FALSE
    assert claim.reason == "the repeats of sglang are not all ahead of those of vllm"
