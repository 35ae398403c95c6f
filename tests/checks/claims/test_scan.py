"""What a bound sentence has to show, and what is found where nothing is bound."""

from __future__ import annotations

import pytest

from checks.claims.model import Claim, Kind, Verdict
from tests.checks.claims.conftest import Judged
from tests.checks.claims.world import Oracle

C = "deepseek-moe-16b"


def only(claims: list[Claim]) -> Claim:
    (claim,) = claims
    return claim


HOLDS = [
    f"dispatch beats vLLM at 1 token.<!-- claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1') -->",
    f"Our kernels outperform vLLM and SGLang at 16 tokens.<!-- claim: SELECT wins('dispatch', '{C}/*/*/16', rivals := 'vllm,sglang') -->",
    f"dispatch wins at 1 and 16 tokens.<!-- claim: SELECT wins('dispatch', '{C}/*/*/1,16') -->",
    f"dispatch is faster than every rival from 1 to 16 tokens.<!-- claim: SELECT wins('dispatch', '{C}/*/*/1,16') -->",
    f"SGLang is slower than dispatch in every cell.<!-- claim: SELECT beats('dispatch', 'sglang', '{C}/*/*/*') -->",
    f"SGLang trails dispatch throughout.<!-- claim: SELECT beats('dispatch', 'sglang', '{C}/*/*/*') -->",
    f"dispatch wins 8<!-- = SELECT wins_count('dispatch', '{C}/*/*/*') --> of 16<!-- = SELECT cells('{C}/*/*/*') --> cells.",
    f"vLLM wins in all 4 cells at 128 tokens.<!-- claim: SELECT wins('vllm', '{C}/*/*/128') -->",
    f"dispatch beats vLLM at 1 token<!-- claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1') -->, but loses to vLLM at 128 tokens"
    f"<!-- claim: SELECT beats('vllm', 'dispatch', '{C}/*/*/128') -->.",
    "The lake holds 32<!-- = SELECT count(*) FROM winners --> rows of winners.",
    "Every time is positive.<!-- claim: SELECT bool_and(time_us > 0) FROM samples -->",
]


@pytest.mark.parametrize("text", HOLDS)
def test_true_sentences_that_show_their_scope_hold(judged: Judged, text: str) -> None:
    claims = judged(text)
    assert claims
    assert [(c.verdict, c.reason) for c in claims if c.verdict is not Verdict.HOLDS] == []


REJECTED = [
    # who
    ("vLLM beats SGLang at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "the sentence compares vllm with sglang"),
    ("It beats vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "has to name both"),
    ("vLLM beats dispatch at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "the other way round"),
    ("dispatch wins at 1 token.", f"wins('dispatch', '{C}/*/*/1', rivals := 'sglang')", "names no rivals and so means all of them"),
    ("dispatch wins at 1 token.", f"beats('dispatch', 'sglang', '{C}/*/*/1')", "use wins"),
    # where
    ("dispatch beats vLLM.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "covers only 1 of the lake's token counts"),
    ("dispatch beats vLLM at 16 tokens.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says token counts 16"),
    ("dispatch beats vLLM at 1 token in bf16.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says precision bf16"),
    ("dispatch beats vLLM at 1 token on the A100.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says device a100"),
    ("dispatch beats vLLM at 1 token for Mixtral.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says workload mixtral"),
    ("dispatch beats vLLM at 1 token in graph mode.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says timing mode graph"),
    ("dispatch always beats vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "'always' needs the whole set"),
    ("dispatch wins all 5 cells at 1 token.", f"wins('dispatch', '{C}/*/*/1')", "says 5 cells, the query covers 4"),
    ("dispatch beats vLLM at 1 token on every GPU.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "not every device"),
    # what
    ("dispatch leads vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "'leads' needs a metric"),
    ("dispatch beats vLLM in memory use at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "measures something else"),
    ("Served by dispatch, it beats vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "is about serving"),
    ("dispatch is twice as fast as vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "number in words"),
    ("dispatch does not lose to vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "is a negation"),
    ("Only dispatch beats vLLM at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "says more than"),
    ("dispatch beats vLLM in most cells at 1 token.", f"beats('dispatch', 'vllm', '{C}/*/*/1')", "is no number of cells"),
    # how
    ("dispatch beats vLLM at 1 token.", "count(*) > 0 FROM winners", "binds only through a typed macro; use beats"),
    ("Something holds.", "true", "a constant proves nothing"),
    ("Something holds.", "1 + 1 = 2 FROM winners", "proves nothing"),
    ("Something holds.", "90.0 + 9.9 > 90 FROM winners LIMIT 1", "proves nothing"),
    ("Something holds.", "count(*) >= 0 FROM winners", "stays true when all evidence is removed"),
    ("dispatch beats vLLM at 1 token.", "beats('dispatch', 'vllm', 'bf16')", "each a glob"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "query", "reason"), REJECTED)
def test_a_binding_that_does_not_prove_the_sentence_is_rejected(
    judged: Judged, sentence: str, query: str, reason: str
) -> None:
    claim = only(judged(f"{sentence}<!-- claim: SELECT {query} -->"))
    assert claim.verdict is Verdict.REJECTED
    assert reason in claim.reason


def test_a_false_comparison_names_the_cell_the_contestants_and_the_numbers(judged: Judged) -> None:
    claim = only(
        judged(f"dispatch wins at 128 tokens.<!-- claim: SELECT wins('dispatch', '{C}/*/*/128') -->")
    )
    assert claim.verdict is Verdict.FALSE
    assert f"{C}/bf16/uniform/128 (eager) is win over dispatch, sglang by vllm" in claim.reason
    assert claim.suggestion == "nearest true statement: dispatch wins 0 of 4 cells"


def test_a_tie_is_no_win(judged: Judged) -> None:
    claims = judged(
        f"dispatch beats vLLM at 512 tokens.<!-- claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/512') -->"
    )
    assert only(claims).verdict is Verdict.FALSE


def test_a_number_is_told_of_either_side_in_either_direction(judged: Judged, oracle: Oracle) -> None:
    value = oracle.speedup("dispatch", "vllm", (f"{C}/bf16/uniform/1", "graph"))
    cell = f"'{C}/bf16/uniform/1', mode := 'graph'"
    where = "at 1 token in bf16, uniform routing, graph mode"
    for text in (
        f"dispatch is {value:.3f}x<!-- = SELECT speedup('dispatch', 'vllm', {cell}) --> faster than vLLM {where}.",
        f"dispatch is {value:.3f}x<!-- = SELECT speedup('vllm', 'dispatch', {cell}) --> faster than vLLM {where}.",
        f"vLLM is {value:.3f}x<!-- = SELECT speedup('vllm', 'dispatch', {cell}) --> slower than dispatch {where}.",
        f"vLLM is {value:.3f}x<!-- = SELECT ratio('vllm', 'dispatch', {cell}) --> slower than dispatch {where}.",
        f"vLLM takes {value:.3f}x<!-- = SELECT ratio('vllm', 'dispatch', {cell}) --> as long as dispatch {where}.",
        f"vLLM is {1 / value:.3f}x<!-- = SELECT speedup('vllm', 'dispatch', {cell}) --> as fast as dispatch {where}.",
        f"dispatch is {100 * value - 100:.1f}%<!-- = SELECT percent_faster('dispatch', 'vllm', {cell}) --> faster than vLLM {where}.",
    ):
        claim = only(judged(text))
        assert (claim.verdict, text) == (Verdict.HOLDS, text), claim.reason
    wrong = f"dispatch is {value:.3f}x<!-- = SELECT speedup('dispatch', 'vllm', {cell}) --> slower than vLLM {where}."
    assert only(judged(wrong)).verdict is Verdict.FALSE


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("over", Verdict.FALSE),
        ("at least", Verdict.FALSE),
        ("about", Verdict.HOLDS),
        ("under", Verdict.HOLDS),
    ],
)
def test_words_before_a_number_bind_its_edge(
    judged: Judged, oracle: Oracle, words: str, verdict: Verdict
) -> None:
    cell = (f"{C}/bf16/uniform/1", "graph")
    value = oracle.speedup("dispatch", "vllm", cell)
    above = next(f"{value:.{p}f}" for p in range(1, 9) if float(f"{value:.{p}f}") > value)  # rounds upwards
    text = (
        f"dispatch is {words} {above}x<!-- = SELECT speedup('dispatch', 'vllm', '{cell[0]}', mode := 'graph') --> faster "
        "than vLLM at 1 token in bf16, uniform routing, graph mode."
    )
    assert only(judged(text)).verdict is verdict


def test_the_unit_of_a_number_is_the_macros_and_only_times_convert(judged: Judged, oracle: Oracle) -> None:
    cell = (f"{C}/bf16/zipf/16", "eager")
    time = oracle.time("vllm", cell)
    query = f"<!-- = SELECT time_us('vllm', '{cell[0]}', mode := 'eager') -->"
    where = "at 16 tokens in bf16, zipf routing, eager mode"
    for shown, verdict in (
        (f"{time:.2f} us", Verdict.HOLDS),
        (f"{time / 1000:.5f} ms", Verdict.HOLDS),
        (f"{time:.2f} ms", Verdict.FALSE),
        (f"{time:.2f}x", Verdict.FALSE),
        (f"{time:.2f}", Verdict.REJECTED),
    ):
        claims = judged(f"vLLM takes {shown}{query} {where}.")
        assert [c.verdict for c in claims if c.kind is Kind.NUMBER] == [verdict], shown


def test_a_hand_written_number_needs_a_unit_and_must_not_contain_itself(judged: Judged) -> None:
    good = only(
        judged(
            "The card has 3 us<!-- = SELECT 2 + count(DISTINCT device) AS least_us FROM winners --> to spare."
        )
    )
    assert good.verdict is Verdict.HOLDS
    unit = only(
        judged("The card has 3 us<!-- = SELECT 2 + count(DISTINCT device) FROM winners --> to spare.")
    )
    assert "the unit of the query's column is unknown" in unit.reason
    constant = only(
        judged(
            "The card has 3 us<!-- = SELECT 3 * count(DISTINCT device) AS least_us FROM winners --> to spare."
        )
    )
    assert "contains the printed number itself" in constant.reason
    named = only(
        judged("vLLM needs 3 us<!-- = SELECT 2 + count(DISTINCT device) AS least_us FROM winners -->.")
    )
    assert "bind only through typed macros" in named.reason


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT tokens FROM winners WHERE tokens = 4096", "returns no rows"),
        ("SELECT NULL::BIGINT + tokens FROM winners LIMIT 1", "returns NULL"),
        ("SELECT max(nothing) FROM winners", "the query broke"),
        (f"SELECT time_us('vllm', '{C}/bf16/uniform/4096', mode := 'graph')", "there is no evidence"),
    ],
)
def test_without_evidence_nothing_is_judged(judged: Judged, query: str, reason: str) -> None:
    claim = only(
        judged(
            f"The number is 7 us<!-- = {query} --> for vLLM."
            if "time_us" in query
            else f"There are 7<!-- = {query} --> of them."
        )
    )
    assert claim.verdict is Verdict.UNJUDGED
    assert reason in claim.reason


UNBOUND = [
    ("dispatch beats vLLM.", "'beats'"),
    ("We are faster than vLLM.", "'faster'"),
    ("vLLM and SGLang are equally quick.", "'are equally quick'"),
    ("dispatch runs at a quarter of vLLM's cost.", "'at a quarter of'"),
    ("Our kernel is the fastest.", "'fastest'"),
    ("It is faster than every rival.", "'faster'"),
    ("The kernel needs 3.5 ms.", "'3.5 ms'"),
    ("Throughput rises by 12%.", "'12%'"),
    ("The stream runs at 4.2 TB/s.", "'4.2 TB/s'"),
    ("It costs $1.97 per million tokens.", "'$1.97'"),
    ("# dispatch wins", "'wins'"),
    ("> SGLang lags behind vLLM.", "'lags behind'"),
    ("- no engine is ahead of dispatch", "'ahead of'"),
    ("`dispatch` leaves `vllm` behind.", "'leaves'"),
    ("| contestant | time |\n|---|---|\n| vLLM | 3.5 us |", "'3.5 us'"),
    ("| contestant | time (us) |\n|---|---|\n| vLLM | 3.5 |", "'3.5'"),
    ("| a | b |\n|---|---|\n| x | dispatch beats vLLM |", "'beats'"),
    ("<p>dispatch beats vLLM</p>", "'beats'"),
    ("vLLM is 2\u00d7 dispatch.", "'2\u00d7'"),
    ("SGLang is second to none.", "'second to none'"),
    ("vLLM is better than dispatch.", "'better'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), UNBOUND)
def test_figures_and_comparisons_that_nothing_covers_are_found(judged: Judged, text: str, words: str) -> None:
    found = [c for c in judged(text) if c.verdict is Verdict.UNBOUND]
    assert [c.reason.partition(" compares")[0].partition(" is bound")[0] for c in found] == [words]
    assert found[0].suggestion


SILENT = [
    "Run `dispatch` with 12 rounds over 6 sessions on 2026-01-02 (issue #12, v1.2.3, 4f3a2b1c).",
    "```\ndispatch beats vLLM by 1.3x\n```",
    "A contestant wins only if it is faster than every required rival.",
    "A cell has an outcome: win, tie, inconclusive.",
    "The shape has 64 experts, 2048 x 1408, at 128 tokens.",
    "See [the run](https://x.example/vllm-1.3x-faster).",
    "Routing is drawn from a seed; kernels are compiled ahead of time.",
    "vLLM and SGLang need an environment each.",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_is_no_claim_is_left_alone(judged: Judged, text: str) -> None:
    assert judged(text) == []


def test_quotations_and_waivers_are_listed_and_cover_only_what_stands_before_them(judged: Judged) -> None:
    quoted = judged("vLLM takes 1.232 ms and SGLang 2.111 ms<!-- quoted: the phase-6 text --> there.")
    assert [(c.verdict, c.query) for c in quoted] == [(Verdict.QUOTED, "the phase-6 text")]
    waived = judged("The paper beats vLLM into shape.<!-- not-a-claim: a manner of speaking -->")
    assert [(c.verdict, c.reason) for c in waived] == [(Verdict.WAIVED, "a manner of speaking")]
    behind = judged("vLLM takes 1.232 ms<!-- quoted: the phase-6 text --> and SGLang 2.111 ms.")
    assert [c.verdict for c in behind] == [Verdict.QUOTED, Verdict.UNBOUND]
    assert [c.verdict for c in judged("vLLM takes 3 ms.<!-- quoted: -->")] == [
        Verdict.REJECTED,
        Verdict.UNBOUND,
    ]


@pytest.mark.parametrize(
    "comment", ["claims: SELECT 1", "SELECT beats('a','b','*/*/*/*')", "not a claim: x", "quote: y"]
)
def test_a_comment_that_almost_is_one_is_named(judged: Judged, comment: str) -> None:
    claims = judged(f"Some words.<!-- {comment} -->")
    assert only(claims).verdict is Verdict.REJECTED


def test_a_second_comparison_in_a_bound_sentence_is_found(judged: Judged) -> None:
    bound = f"dispatch beats vLLM at 1 token<!-- claim: SELECT beats('dispatch', 'vllm', '{C}/*/*/1') -->"
    assert [c.verdict for c in judged(f"{bound}, and SGLang is slower than vLLM.")] == [
        Verdict.HOLDS,
        Verdict.UNBOUND,
    ]
    assert [c.verdict for c in judged(f"{bound}. It is also faster than SGLang.")] == [
        Verdict.HOLDS,
        Verdict.UNBOUND,
    ]


def test_table_cells_are_bound_with_their_labels(judged: Judged, oracle: Oracle) -> None:
    cell = (f"{C}/int8_w8a8/zipf/128", "graph")
    query = f"<!-- = SELECT time_us('vllm', '{cell[0]}', mode := 'graph') -->"

    def table(
        tokens: str = "128", who: str = "vLLM", unit: str = "us", caption: str = "In graph mode:"
    ) -> list[Verdict]:
        text = (
            f"{caption}\n\n| tokens | precision | routing | {who} ({unit}) |\n|---|---|---|---|\n"
            f"| {tokens} | int8_w8a8 | zipf | {oracle.time('vllm', cell):.1f}{query} |\n"
        )
        return [c.verdict for c in judged(text)]

    assert table() == [Verdict.HOLDS]
    assert table(tokens="512") == [Verdict.REJECTED]
    assert table(who="SGLang") == [Verdict.REJECTED]
    assert table(unit="ms") == [Verdict.FALSE]
    assert table(caption="Eagerly:") == [Verdict.REJECTED]
    assert table(caption="Times.") == [Verdict.REJECTED]
