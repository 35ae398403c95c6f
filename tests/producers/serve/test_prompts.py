"""Prompts of exact lengths: reproducible, inside the vocabulary, ids and text alike."""

from __future__ import annotations

import json

import pytest

from producers.errors import UsageError
from producers.serve.prompts import arrivals, draw, encode, read_vocabulary, sha256


@pytest.fixture
def vocabulary(serve):
    return read_vocabulary(serve.model)


def test_ids_and_text_say_the_same(vocabulary):
    names = dict(zip(vocabulary.ids, vocabulary.texts, strict=True))
    for prompt in draw(vocabulary, 7, "c4/r0", count=20, tokens=32):
        assert len(prompt.ids) == 32
        assert prompt.text == "".join(names[index] for index in prompt.ids)


def test_a_seed_and_a_label_make_the_prompts(vocabulary):
    first = draw(vocabulary, 7, "c4/r0", 3, 8)

    assert sha256(draw(vocabulary, 7, "c4/r0", 3, 8)) == sha256(first)
    assert sha256(draw(vocabulary, 8, "c4/r0", 3, 8)) != sha256(first)
    assert sha256(draw(vocabulary, 7, "c4/r1", 3, 8)) != sha256(first)
    assert [json.loads(line)["ids"] for line in encode(first).splitlines()] == [list(p.ids) for p in first]


def test_ids_beyond_the_embedding_and_what_is_no_word_are_left_out(serve):
    model = serve.model
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {"\u0120Beyond": 5, "\u0120beyond": 100_000, "inside": 6, "\u0120<eos>": 7}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    texts = read_vocabulary(model).texts

    assert " beyond" not in texts
    assert {" Beyond", "inside", " <eos>"}.isdisjoint(texts)
    assert len(texts) == 180


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{", "Cannot read"),
        ("config.json", "[" * 100_000, "Cannot read"),
        ("config.json", '{"vocab_size": "x"}', "'vocab_size' that is no whole number"),
        ("config.json", '{"text_config": null}', "words of a byte-level vocabulary"),
        ("tokenizer.json", '{"model": []}', "words of a byte-level vocabulary"),
        ("tokenizer.json", '{"model": {"vocab": {"\\u0120word": "x"}}}', "words of a byte-level vocabulary"),
        ("config.json", "[]", "is no JSON object"),
        ("tokenizer.json", '{"model": {"vocab": [["a", 1]]}}', "has 0 words of a byte-level vocabulary"),
        ("config.json", '{"vocab_size": 20}', "has 17 words"),
    ],
)
def test_a_folder_that_gives_no_prompts_is_named(serve, name, content, said):
    (serve.model / name).write_text(content)
    with pytest.raises(UsageError, match=said):
        read_vocabulary(serve.model)


def test_arrivals_have_the_rate(vocabulary):
    times = arrivals(3, "c1/r0", 4000, 50.0)

    assert times == sorted(times)
    assert times[-1] / len(times) == pytest.approx(1 / 50, rel=0.05)
    assert arrivals(3, "c1/r0", 3, None) == [0.0, 0.0, 0.0]
