"""`checks new`: every macro has a sentence that holds; where there is none, the reason is said."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from checks.claims import new
from checks.claims.macros import MACROS
from checks.claims.new import NewClaimError
from checks.cli import app
from tests.checks.claims.conftest import over
from tests.lakes import Entrant, Race, control, write
from warehouse.append import append
from warehouse.build import build

C = "deepseek-moe-16b"
CELL = f"{C}/bf16/uniform/1"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

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


def holds(sentence: str, db: Path) -> bool:
    verdicts = {c.verdict.value for c in over(db, sentence)}
    return verdicts == {"holds"}


@pytest.mark.parametrize("query", RACE)
def test_a_new_sentence_is_bound_and_holds(world: tuple[Path, Path], query: str) -> None:
    sentence = new(query, world[1]).sentence
    assert RACE[query] in sentence
    assert holds(sentence, world[1]), sentence


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a gate, decode steps, served engines, a price and ceilings beside a race."""
    folder = tmp_path_factory.mktemp("others")
    lake = write(folder / "lake", Race())
    run = {"run_id": "20260101T000000Z-00000000"}
    gate = [
        {**run, "config": config, "position": i, "agree": i >= wrong, "kernel_calls": 3}
        for config, wrong in (("stock_vs_stock", 0), ("auto_bf16", 2), ("naive_bf16", 4))
        for i in range(40)
    ]
    steps = [
        {**run, "config": config, "repeat": r, "step": i, "time_us": us}
        for config, us in (("stock", 4000.0), ("dispatch", 2500.0))
        for r in range(3)
        for i in range(5)
    ]
    served: list[dict[str, Any]] = [
        {
            **{
                "serving_id": f"s{load}-{repeat}",
                "evidence": "measured",
                "engine": "vllm",
                "status": "passed",
            },
            **{
                "engine_version": "1",
                "client": "c",
                "client_version": "1",
                "device": "Test GPU",
                "model": "m",
            },
            **{"max_concurrency": load, "repeat": repeat, "ttft_p50_ms": 12.5, "recorded_at": EPOCH},
            "output_tokens_per_s": 100.0 * load + repeat,
        }
        for load in (1, 4)
        for repeat in range(3)
    ]
    price = {"cost_id": "a", "recorded_at": EPOCH, "basis": "rate", "rate_usd_per_h": 3.6, "source": "a bill"}
    for table, rows in {"gate_positions": gate, "decode_steps": steps, "serving_runs": served}.items():
        append(lake, table, rows)
    append(lake, "costs", [price])
    build([lake], folder / "warehouse.db")
    return folder / "warehouse.db"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("agreement('auto_bf16')", "auto_bf16 agrees with the stock model at 95.0%<!--"),
        ("agreement_range('*')", "Every configuration agrees with the stock model at 90.0 to 95.0%<!--"),
        ("positions('naive_bf16')", "at 40<!-- = SELECT positions"),
        ("decode_tokens_per_second('dispatch')", "dispatch decodes 400 tokens/s<!--"),
        ("decode_speedup('dispatch', 'stock')", "dispatch decodes 1.60x<!--"),
        ("decode_speedup('stock', 'dispatch')", "--> slower than dispatch"),
        ("tokens_per_second('vllm', 4)", "vLLM serves 401 tokens/s<!--"),
        ("ttft_ms('vllm', 1)", "The time to first token of vLLM is 12.5 ms<!--"),
        ("cost_per_m_output_tokens('vllm', 4)", "vLLM costs 2.49 USD<!--"),
    ],
)
def test_the_gate_decode_and_serving_have_sentences(others: Path, query: str, words: str) -> None:
    sentence = new(query, others).sentence
    assert words in sentence
    assert holds(sentence, others), sentence


def test_every_macro_over_measurements_is_tried_here() -> None:
    tried = {q.removeprefix("SELECT ").partition("(")[0] for q in RACE}
    tried |= {"agreement", "agreement_range", "positions", "decode_tokens_per_second", "decode_speedup"}
    tried |= {"tokens_per_second", "ttft_ms", "cost_per_m_output_tokens"}
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
        ("agreement('auto_bf61')", "the gate knows no auto_bf61: there are auto_bf16, naive_bf16"),
        ("decode_speedup('dispatch', 'stok')", "did you mean 'stock'"),
        ("tokens_per_second('vllm', 16)", "vllm was not served at concurrency 16, only at 1, 4"),
        ("tokens_per_second('sglang', 4)", "no served run of sglang was measured and passed"),
    ],
)
def test_what_other_evidence_lacks_is_said(others: Path, query: str, reason: str) -> None:
    with pytest.raises(NewClaimError) as caught:
        new(query, others)
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
