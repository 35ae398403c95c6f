"""`checks new`: every macro has a sentence that holds; where there is none, the reason is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from checks.claims import new
from checks.claims.macros import MACROS
from checks.claims.new import NewClaimError
from checks.cli import app
from tests.checks.claims.conftest import over
from tests.lakes import Entrant, Race, control, write
from warehouse.build import build

C = "deepseek-moe-16b"
CELL = f"{C}/bf16/uniform/1"

RACE = {
    f"speedup('vllm', 'dispatch', '{CELL}', mode := 'graph')": "vLLM is 1.17x",
    f"SELECT speedup('dispatch', 'vllm', '{CELL}', mode := 'eager')": "x<!--",
    f"speedup('dispatch', 'vllm', '{C}/bf16/uniform/512', mode := 'graph')": "as fast as vLLM",
    f"ratio('vllm', 'dispatch', '{CELL}', mode := 'graph')": "as long as dispatch",
    f"percent_faster('vllm', 'dispatch', '{CELL}', mode := 'graph')": "slower than dispatch",
    f"speedup_range('dispatch', 'vllm', '{C}/*/*/1,16')": "faster than vLLM at 1 and 16 tokens",
    f"speedup_range('vllm', 'dispatch', '{C}/*/*/1,16')": "slower than dispatch at 1 and 16 tokens",
    f"speedup_range('dispatch', 'vllm', '{C}/*/*/*')": "as fast as vLLM",
    f"percent_faster_range('sglang', 'dispatch', '{C}/bf16/*/1')": "%<!-- = SELECT percent_faster_range",
    f"geomean_speedup('dispatch', 'vllm', '{C}/*/*/*')": "in the geometric mean",
    f"wins('dispatch', '{C}/bf16/*/1')": "dispatch wins at 1 token, in bf16",
    f"wins('vllm', '{C}/*/zipf/128', rivals := 'dispatch,sglang')": "vLLM wins over dispatch and SGLang",
    f"beats('dispatch', 'vllm', '{C}/*/*/1,16', mode := 'graph')": "dispatch beats vLLM",
    f"ties('dispatch', 'vllm', '{C}/*/*/512')": "dispatch is level with vLLM at 512 tokens",
    f"time_us('vllm', '{C}/bf16/zipf/128', mode := 'eager')": " us<!--",
    f"time_range_us('vllm', '{C}/bf16/*/*')": " to ",
    f"cells('{C}/bf16/*/*')": "The lake has 8<!--",
    f"wins_count('dispatch', '{C}/bf16/*/*')": "dispatch wins 4<!--",
    f"beats_count('vllm', 'dispatch', '{C}/*/*/*')": "vLLM beats dispatch in 4<!--",
}

BESIDE = {
    "agreement('auto_bf16')": "auto_bf16 agrees with the stock model at 99.5%<!--",
    "agreement_range('*')": "Every configuration agrees with the stock model at 98.1 to 99.9%<!--",
    "agreement('stock_bf16_vs_float32')": "stock_bf16_vs_float32 agrees with the stock model at 99.8%<!--",
    "positions('naive_bf16')": "at 1036<!-- = SELECT positions",
    "decode_tokens_per_second('dispatch_bf16')": "dispatch_bf16 decodes 396 tokens/s<!--",
    "decode_speedup('dispatch_bf16', 'stock_eager_bf16')": "dispatch_bf16 decodes 1.60x<!--",
    "decode_speedup('stock_eager_bf16', 'dispatch_bf16')": "--> slower than dispatch_bf16",
    "decode_beats('dispatch_bf16', 'stock_eager_bf16')": "decodes faster than stock_eager_bf16",
    "tokens_per_second('vllm', 4)": "vLLM serves 356 tokens/s<!--",
    "ttft_ms('vllm', 1)": "The time to first token of vLLM is 23.2 ms<!--",
    "cost_per_m_output_tokens('vllm', 4)": "vLLM costs 2.81 USD<!--",
    "serving_speedup('vllm', 'sglang', 4, 'output_tokens_per_s')": "SGLang is 1.22x<!--",
    "serving_beats('sglang', 'vllm', 4, 'ttft_p50_ms')": "ahead of vLLM in time to first token at concurrency 4",
}


def holds(sentence: str, db: Path) -> bool:
    verdicts = {c.verdict.value for c in over(db, sentence)}
    return verdicts == {"holds"}


@pytest.mark.parametrize("query", RACE)
def test_a_new_sentence_is_bound_and_holds(world: tuple[Path, Path], query: str) -> None:
    sentence = new(query, world[1]).sentence
    assert RACE[query] in sentence
    assert holds(sentence, world[1]), sentence


@pytest.mark.parametrize("query", BESIDE)
def test_the_gate_decode_and_serving_have_sentences(beside: Path, query: str) -> None:
    sentence = new(query, beside).sentence
    assert BESIDE[query] in sentence
    assert holds(sentence, beside), sentence


def test_every_macro_over_measurements_is_tried_here() -> None:
    tried = {q.removeprefix("SELECT ").partition("(")[0] for q in (*RACE, *BESIDE)}
    floors = {"x_floor", "x_floor_range"}  # of the recorded lake: docs/kernels.md binds them
    assert {n for n, m in MACROS.items() if m.evidence == "measured"} - floors == tried


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"wins('dispatch', '{C}/*/*/128')", "gives no true sentence"),
        (f"beats('dispatch', 'vllm', '{C}/*/*/512')", "gives no true sentence"),
        (f"time_us('humming', '{CELL}', mode := 'graph')", "humming takes no part"),
        ("count(*) FROM winners", "is no call of a typed macro"),
        ("wins('dispatch')", "wins needs 'cells'"),
        (
            f"speedup('dispatch', 'vllm', '{C}/bf16/*/*')",
            "about one cell and mode, the query selects 16: name one cell and mode, or use speedup_range or "
            "geomean_speedup",
        ),
        (f"time_us('dispatch', '{C}/bf16/*/*')", "or use time_range_us"),
        (f"percent_faster_range('dispatch', 'vllm', '{C}/*/*/*')", "neither is faster throughout"),
        (f"speedup('dispatch', 'vllm', '{C}/bf16/uniform/4')", "holds no evidence"),
        (f"wins('dispach', '{C}/*/*/1')", "did you mean 'dispatch' where the query says 'dispach'?"),
        (f"speedup('dispatch', 'vlm', '{CELL}', mode := 'graph')", "did you mean 'vllm'"),
        ("agreement('auto_bf16')", "the lake holds nothing of the gate"),
        ("published_range('a', 'b')", "has no sentence of its own"),
    ],
)
def test_no_sentence_is_written_that_does_not_hold(world: tuple[Path, Path], query: str, reason: str) -> None:
    with pytest.raises(NewClaimError) as caught:
        new(query, world[1])
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("agreement('auto_bf61')", "the gate knows no auto_bf61: there are auto_bf16, auto_int8_w8a16"),
        ("agreement('auto_bf61')", "did you mean 'auto_bf16'"),
        ("agreement('auto_bf16', model_name := 'small')", "the gate knows no small: there is tiny"),
        ("decode_speedup('dispatch_bf16', 'stock_eagre_bf16')", "did you mean 'stock_eager_bf16'"),
        (
            "serving_beats('vllm', 'sglang', 4, 'output_tokens_per_s')",
            "not all ahead of those of sglang (vllm against sglang is 0.818x)",
        ),
        ("serving_speedup('vllm', 'sglang', 4, 'goodput')", "no metric of served engines is goodput"),
        ("tokens_per_second('vllm', 16)", "vllm was not served at concurrency 16, only at 1, 4"),
        ("tokens_per_second('humming', 4)", "no served run of humming was measured and passed"),
    ],
)
def test_what_other_evidence_lacks_is_said(beside: Path, query: str, reason: str) -> None:
    with pytest.raises(NewClaimError) as caught:
        new(query, beside)
    assert reason in str(caught.value)


def test_the_interpreter_is_named_and_says_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entrants = (
        Entrant("dispatch", "dispatch", 100.0),
        Entrant("example", "example", 150.0),
        control(time_us=100.0),
    )
    write(tmp_path / "lake", Race(entrants=entrants, device="cpu-interpreter"))
    build([tmp_path / "lake"], tmp_path / "warehouse.db")
    done = CliRunner().invoke(app, ["new", f"beats('dispatch', 'example', '{C}/bf16/uniform/128')"])
    assert done.exit_code == 0
    assert done.stdout.startswith("dispatch beats example on cpu-interpreter.<!--")
    assert "they say nothing about any GPU" in done.stderr
