"""Damage to result files: what kills, editors, spreadsheets, shells and other tools do to them, drawn from a seed."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TOKENS = (
    *("NaN", "Infinity", "-Infinity", "null", "true", "-1", "0", "0.0", "-0.0", "1e400", "1e-320", "12.5"),
    *(
        '"1000"',
        '"text"',
        '""',
        '"\\ud800"',
        '"caf\u00e9"',
        "[]",
        "{}",
        "[[]]",
        '[{"a": [1, "x"]}]',
        "1" + "0" * 30,
    ),
    *(
        "1" * 5000,
        "[" * 3000 + "]" * 3000,
        '{"a":' * 3000 + "1" + "}" * 3000,
        "0x10",
        "'single'",
        "undefined",
    ),
)
_VALUE = re.compile(rb'(?<=[:\[,])\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null|true|false|NaN|Infinity)')
_CELL = re.compile(rb"(?<=[,\n])[^,\n\"]*(?=[,\n])")
_PAIR = re.compile(rb'"([^"\\]+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null|true|false)')

Damage = Callable[[bytes, random.Random], bytes]


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return ``content`` with one to three kinds of damage."""
    kinds = PARQUET if content.startswith(b"PAR1") else TEXT
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = draw.choice(kinds)(content, draw)
    return content


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _cut_front(content: bytes, draw: random.Random) -> bytes:
    return content[draw.randrange(len(content) + 1) :]


def _span(content: bytes, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice((1, 2, 10, 100)))


def _delete(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:end] + content[start:end] * draw.choice((1, 3)) + content[end:]


def _garbage(content: bytes, draw: random.Random) -> bytes:
    start, _ = _span(content, draw)
    return content[:start] + draw.randbytes(draw.choice((1, 4, 64))) + content[start:]


def _text(content: bytes, draw: random.Random) -> bytes:
    start, _ = _span(content, draw)
    word = draw.choice(
        (
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b'"',
            b"\n",
            b"\r\n",
            b"\n\n{",
            b"TRAILER",
            b"\0",
            b"\x1a",
            b"# note\n",
        )
    )
    return content[:start] + word + content[start:]


def _replace(pattern: re.Pattern[bytes]) -> Damage:
    def damage(content: bytes, draw: random.Random) -> bytes:
        found = list(pattern.finditer(content))
        if not found:
            return content
        where = draw.choice(found)
        token = draw.choice(TOKENS).encode()
        return content[: where.start()] + token + content[where.end() :]

    return damage


def _double_key(content: bytes, draw: random.Random) -> bytes:
    found = list(_PAIR.finditer(content))
    if not found:
        return content
    where = draw.choice(found)
    again = b'"' + where.group(1) + b'": ' + draw.choice(TOKENS).encode()
    return content[: where.end()] + b", " + again + content[where.end() :]


def _encode(content: bytes, draw: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(
        draw.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp500")), "replace"
    )


def _accents(content: bytes, draw: random.Random) -> bytes:
    return content.replace(draw.choice((b"e", b"a", b"m")), "\u00e9".encode("latin-1"), 3)


def _twice(content: bytes, draw: random.Random) -> bytes:
    return content + draw.choice((b"", b"\n", b"\n\n", b",\n")) + content


def _lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    draw.shuffle(lines)
    return b"\n".join(lines[: draw.randrange(len(lines) + 1)])


def _line_ends(content: bytes, draw: random.Random) -> bytes:
    return content.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n")))


def _empty(content: bytes, draw: random.Random) -> bytes:
    return draw.choice(
        (b"", b"\n", b"  ", b"{}", b"[]", b"null", b"[{}]", b"\0" * 64, b"PAR1", b"\xff\xfe", content[:1])
    )


def _drop_key(content: bytes, draw: random.Random) -> bytes:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content
    holder = _somewhere(value, draw)
    if isinstance(holder, dict) and holder:
        del holder[draw.choice(list(holder))]
    elif isinstance(holder, list) and holder:
        holder.pop(draw.randrange(len(holder)))
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return content


def _somewhere(value: Any, draw: random.Random) -> Any:
    for _ in range(draw.randrange(4)):
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        inner = [child for child in children if isinstance(child, dict | list)]
        if not inner:
            break
        value = draw.choice(inner)
    return value


def _table(content: bytes, draw: random.Random) -> bytes:
    try:
        table = pq.read_table(io.BytesIO(content))
    except (OSError, ValueError):
        return content
    if not table.num_columns:
        return content
    name = draw.choice(table.column_names)
    place = table.column_names.index(name)
    how = draw.randrange(6)
    rows = table.num_rows
    if how == 0:
        changed = table.drop_columns([name])
    elif how == 1:
        changed = table.set_column(place, name, pa.array(["text"] * rows))
    elif how == 2:
        changed = table.set_column(place, name, pa.nulls(rows))
    elif how == 3:
        changed = table.set_column(
            place, name, pa.array([draw.choice((float("nan"), float("inf"), -1.0, 0.0))] * rows)
        )
    elif how == 4:
        changed = pa.concat_tables([table, table])
    else:
        changed = table.set_column(place, name, pa.array([[1, 2]] * rows))
    buffer = io.BytesIO()
    pq.write_table(changed, buffer)
    return buffer.getvalue()


TEXT: tuple[Damage, ...] = (
    *(
        _cut,
        _cut,
        _cut_front,
        _delete,
        _repeat,
        _garbage,
        _text,
        _text,
        _encode,
        _accents,
        _twice,
        _lines,
        _line_ends,
    ),
    *(_empty, _drop_key, _drop_key, _double_key, _replace(_CELL)),
    *[_replace(_VALUE)] * 8,
)
PARQUET: tuple[Damage, ...] = (_cut, _delete, _garbage, _repeat, _empty, *[_table] * 6)
