"""Markdown into sentences with marks."""

from __future__ import annotations

from checks.claims.markdown import read
from checks.claims.model import Kind


def test_a_comment_that_begins_a_line_does_not_end_its_paragraph() -> None:
    document = read("dispatch is **1.3x**\n<!-- = SELECT 1 || 2 -->\nslower than `vLLM`.\n")
    (sentence,) = document.sentences
    assert sentence.text == "dispatch is 1.3x slower than vLLM."
    assert [(m.offset, m.comment.kind, m.comment.body, m.comment.line) for m in sentence.marks] == [
        (17, Kind.NUMBER, "SELECT 1 || 2", 2)
    ]


def test_sentences_keep_their_lines_behind_a_comment_of_several_lines() -> None:
    document = read("One <!-- claim:\nSELECT\n1 --> here. Two.\nThree 3.5 e.g. four.\n\nFive.\n")
    assert [(s.text, s.line) for s in document.sentences] == [
        ("One here.", 1),
        ("Two.", 3),
        ("Three 3.5 e.g. four.", 4),
        ("Five.", 6),
    ]


def test_a_comment_behind_the_full_stop_belongs_to_the_sentence_before() -> None:
    first, second = read("dispatch wins. <!-- claim: A --> vLLM loses.<!-- claim: B -->").sentences
    assert [m.comment.body for m in first.marks] == ["A"]
    assert [m.comment.body for m in second.marks] == ["B"]


def test_code_addresses_and_links_are_no_prose() -> None:
    text = "See `SELECT 1.3x` and [vLLM wins](https://x.example/1.5x) or https://y.example/2ms.\n\n```\n9.9 ms\n```\n\n    8.8 ms\n"
    assert [s.text for s in read(text).sentences] == ["See … and vLLM wins or …"]


def test_a_comment_in_code_is_an_example() -> None:
    document = read("Write `1.3x<!-- = SELECT 1 -->` so.\n\n```\n1.3x<!-- = SELECT 1 -->\n```\n")
    assert [s.marks for s in document.sentences] == [()]
    assert document.stray == ()


def test_a_table_cell_is_read_with_its_header_and_its_row() -> None:
    text = "In graph mode:\n\n| tokens | routing | vLLM (us) |\n|---|---|---|\n| 128 | zipf | 12.5<!-- = SELECT 'a' | 'b' --> |\n"
    cell = next(s for s in read(text).sentences if s.marks)
    assert (cell.text, cell.labels, cell.header) == (
        "12.5",
        "128 tokens; zipf routing; vLLM (us)",
        "vLLM (us)",
    )
    assert (cell.context, cell.line, cell.marks[0].comment.body) == ("In graph mode:", 5, "SELECT 'a' | 'b'")


def test_a_list_takes_its_scope_from_the_sentence_with_the_colon_and_nothing_behind_it_does() -> None:
    text = "On the H200:\n\n- first\n- second\n\nAfter.\n"
    assert [(s.text, s.context) for s in read(text).sentences] == [
        ("On the H200:", ""),
        ("first", "On the H200:"),
        ("second", "On the H200:"),
        ("After.", ""),
    ]


def test_raw_html_quotations_headings_and_image_texts_are_prose() -> None:
    text = "# dispatch wins\n\n> vLLM loses\n\n<p>torch <b>trails</b></p>\n\n![SGLang leads](x.png)\n"
    assert [s.text for s in read(text).sentences] == [
        "dispatch wins",
        "vLLM loses",
        "torch trails",
        "SGLang leads",
    ]


def test_a_quotation_alone_covers_the_next_block_and_other_comments_alone_are_stray() -> None:
    document = read(
        "<!-- quoted: a paper -->\n\nvLLM takes 3 ms. It wins.\n\n<!-- claim: SELECT 1 -->\n\nOther.\n"
    )
    assert [len(s.marks) for s in document.sentences] == [1, 1, 0]
    assert [(c.kind, c.line) for c in document.stray] == [(Kind.STATEMENT, 5)]


def test_a_comment_that_never_ends_is_named() -> None:
    assert [c.kind for c in read("dispatch wins.<!-- claim: SELECT 1\n").stray] == [Kind.UNKNOWN]
