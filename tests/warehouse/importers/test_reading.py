"""JSON streams: several values, damaged ones, foreign encodings; a stretch that is no value is named."""

from __future__ import annotations

import math

import pytest

from warehouse.importers.reading import read_items


def values(data: bytes) -> list[object]:
    return [item.value for item in read_items(data) if item.problem is None and item.heading is None]


def problems(data: bytes) -> list[tuple[str, str]]:
    return [(item.place, item.problem) for item in read_items(data) if item.problem is not None]


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'\n{"a": 1}\n{"a": 2}',
        b'{"a": 1}{"a": 2}',
        b'{\n "a": 1\n}\n\n{\n "a": 2\n}',
        b'[{"a": 1}, {"a": 2}]',
        b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}\r\n',
        '{"a": 1}\n{"a": 2}'.encode("utf-16"),
        '{"a": 1}\n{"a": 2}'.encode("utf-32"),
    ],
)
def test_two_values(data: bytes) -> None:
    assert values(data) == [{"a": 1}, {"a": 2}]
    assert problems(data) == []


def test_bare_nan_and_infinity_are_values() -> None:
    ((nan, infinity),) = [item.values() for item in values(b'{"a": NaN, "b": -Infinity}')]  # type: ignore[attr-defined]
    assert math.isnan(nan)
    assert infinity == -math.inf


def test_elements_of_a_list_have_places() -> None:
    places = [item.place for item in read_items(b'{"a": 1}\n[{"a": 2}, {"a": 3}]')]
    assert places == ["line 1 (byte 0)", "line 2 (byte 9), item 1", "line 2 (byte 9), item 2"]


def test_a_value_that_is_cut_short_in_the_middle_hides_only_itself() -> None:
    data = b'{"a": 1}\n{"a": "tex\n{"a": 3}\n'
    assert values(data) == [{"a": 1}, {"a": 3}]
    assert problems(data) == [
        ("line 2 (byte 9)", "cut short: Invalid control character at line 2, column 11")
    ]


def test_nested_objects_of_a_cut_report_are_no_records() -> None:
    assert values(b'{\n  "benchmarks": [\n    {"a": 1},\n    {"a": 2},\n') == []
    ((place, problem),) = problems(b'{\n  "benchmarks": [\n    {"a": 1},\n    {"a": 2},\n')
    assert place == "line 1 (byte 0)"
    assert problem.startswith("cut short")


def test_byte_offsets_count_bytes() -> None:
    data = '{"a": "\u00e9\u00e9"}\n{"a": '.encode()
    assert problems(data)[0][0] == f"line 2 (byte {data.index(b'{', 1)})"


def test_text_after_a_value_is_not_swallowed() -> None:
    items = read_items(b'{"a": 1}TRAILER\n{"a": 2}')
    assert [item.heading for item in items] == [None, "TRAILER", None]


def test_a_key_with_two_values_is_no_value() -> None:
    data = b'{"a": 1, "b": {"c": 1, "c": 2}}\n{"a": 2}'
    assert values(data) == [{"a": 2}]
    assert problems(data) == [("line 1 (byte 0)", "the key 'c' stands twice with different values")]


def test_a_key_that_stands_twice_with_one_value_is_a_value() -> None:
    assert values(b'{"a": 1, "a": 1}') == [{"a": 1}]


def test_texts_that_look_like_keys_are_no_keys() -> None:
    assert values(b'{"a": "say \\"b\\": 1", "c": ": x"}') == [{"a": 'say "b": 1', "c": ": x"}]


@pytest.mark.parametrize(
    "deep",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b'{"a": [1, ' + b"[" * 500 + b"]" * 500 + b"]}",
        b'{"a": [NaN, ' + b"[" * 500 + b"]" * 500 + b"]}",
    ],
)
def test_deep_nesting_is_a_problem(deep: bytes) -> None:
    assert [problem for _, problem in problems(deep)] == ["nested too deep to be a result"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": "caf\xe9"}', "text that is not Unicode"),
        (b'{"a": "\\ud800"}', "text that is not Unicode"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not readable as JSON (Exceeds the limit (4300 digits)"),
    ],
)
def test_what_is_no_value_of_python(data: bytes, problem: str) -> None:
    assert problems(data + b'\n{"a": 1}')[0][1].startswith(problem)
    assert values(data + b'\n{"a": 1}') == [{"a": 1}]


def test_a_file_of_damage_alone_ends() -> None:
    items = read_items(b'{"a" 1}\n' * 5000)
    assert len(items) == 1001
    assert items[-1].problem == "the rest of the file is not read after 1000 unreadable places"
