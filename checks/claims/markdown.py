"""Markdown into sentences, with the claim comments that stand in them.

markdown-it-py gives the block structure. The comments are taken out first and put back as marks: a comment that
begins a line would otherwise end its paragraph (CommonMark, HTML blocks), and SQL with a pipe would split a table
cell. Code, links' targets and addresses are no prose; a code span that is one word is kept as that word, since
names of contestants are written so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from checks.claims.model import Kind

COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_MARK = re.compile("\ue000(\\d+)\ue001")
_URL = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\S+")
_TAG = re.compile(r"<[^>]*>")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|approx|resp|ca|no|fig|sec|eq|incl|al|etc)\.)\Z", re.IGNORECASE
)
_END = re.compile("[.!?]+[)\\]\"'\u201d\u2019*_]*(?:\\s*\ue000\\d+\ue001)*(?=\\s|\\Z)")
_WORD = re.compile(r"[\w.:/+-]+\Z")


@dataclass(frozen=True)
class Comment:
    """A claim comment: what kind, its text after the keyword, its line in the document."""

    kind: Kind
    body: str
    line: int


@dataclass(frozen=True)
class Mark:
    """A comment at its place: before ``offset`` stands what it binds."""

    offset: int
    comment: Comment


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a table cell, with its marks.

    Attributes:
        text: Prose without comments, one line.
        line: Line in the document where it begins.
        context: What introduces it and may name its scope: the sentence with a colon before a list or table.
        labels: For a table cell: column header and row labels, which belong to the cell's statement.
        header: For a table cell: the column's header.
        cell: Whether this is a table cell.
    """

    text: str
    line: int
    marks: tuple[Mark, ...] = ()
    context: str = ""
    labels: str = ""
    header: str = ""
    cell: bool = False


@dataclass(frozen=True)
class Document:
    """Sentences of a document, and comments that bind nothing because they stand alone."""

    sentences: tuple[Sentence, ...]
    stray: tuple[Comment, ...]


def read(source: str) -> Document:
    """Return the sentences of Markdown ``source``, in order."""
    reader = _Reader(source)
    sentences = tuple(reader.blocks())
    return Document(sentences, tuple(reader.stray))


def classify(text: str) -> tuple[Kind, str] | None:
    """Return kind and body of a comment's text, None for a comment that has nothing to do with claims."""
    body = " ".join(text.split())
    if match := re.match(r"=\s*(.*)\Z", body):
        return Kind.NUMBER, match[1]
    if match := re.match(r"(claim|quoted|not-a-claim)\s*:\s*(.*)\Z", body, re.IGNORECASE):
        kinds = {"claim": Kind.STATEMENT, "quoted": Kind.QUOTED, "not-a-claim": Kind.WAIVER}
        return kinds[match[1].lower()], match[2]
    if re.match(
        r"(claims?|quotes?d?|quotation|not[ _-]?a?[ _-]?claim|waiver?|select|with)\b", body, re.IGNORECASE
    ):
        return Kind.UNKNOWN, body
    return None


class _Reader:
    """One document: its comments by number, and the map from parsed lines to the document's lines."""

    def __init__(self, source: str) -> None:
        self.comments: list[Comment] = []
        self.stray: list[Comment] = []
        self._heights: list[int] = []  # line breaks inside each comment
        self._line_of: list[int] = []
        source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\ue000", "").replace("\ue001", "")
        self._text = self._without_comments(source)

    def _without_comments(self, source: str) -> str:
        """Replace claim comments by marks, drop others, and note the line that each remaining line was."""
        out: list[str] = []
        line, position = 1, 0
        self._line_of = [1]

        def keep(text: str) -> None:
            nonlocal line
            for _ in range(text.count("\n")):
                line += 1
                self._line_of.append(line)
            out.append(text)

        for match in COMMENT.finditer(source):
            keep(source[position : match.start()])
            known = classify(match[1])
            if known is not None:
                out.append(f"\ue000{len(self.comments)}\ue001")
                self.comments.append(Comment(known[0], known[1], line))
                self._heights.append(match[0].count("\n"))
            line += match[0].count("\n")
            position = match.end()
        rest = source[position:]
        if (open_at := rest.find("<!--")) >= 0 and classify(rest[open_at + 4 :]) is not None:
            self.stray.append(
                Comment(Kind.UNKNOWN, "a comment that never ends", line + rest[:open_at].count("\n"))
            )
        keep(rest)
        return "".join(out)

    def line(self, parsed: int) -> int:
        """Return the document's line (from 1) of the parser's line (from 0)."""
        return self._line_of[min(parsed, len(self._line_of) - 1)]

    def blocks(self) -> Iterator[Sentence]:
        """Yield the sentences of every block; a block that is a comment alone covers the next block."""
        parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        tokens = parser.parse(self._text)
        context, pending = "", list[Comment]()
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.type == "table_open":
                end = next(j for j in range(i, len(tokens)) if tokens[j].type == "table_close")
                cells = list(self._table(tokens[i:end], context))
                yield from self._covered(cells, pending)
                pending, context, i = [], "", end
            elif token.type in {"inline", "html_block"}:
                first = self.line(token.map[0]) if token.map else 1
                text = _flatten(token) if token.type == "inline" else _TAG.sub(" ", token.content)
                if not _MARK.sub("", text).strip():
                    pending += self._alone(text)
                else:
                    sentences = list(self._sentences(text, first, context))
                    yield from self._covered(sentences, pending)
                    pending = []
                    last = sentences[-1].text if sentences else ""
                    if not _in_list(token, tokens, i):
                        context = last if last.rstrip(" *_").endswith(":") or _before_table(tokens, i) else ""
            elif token.type in {"heading_open", "fence", "code_block"} or (
                token.type in {"bullet_list_close", "ordered_list_close"} and token.level == 0
            ):
                context = ""
            i += 1
        self.stray += pending

    def _alone(self, text: str) -> list[Comment]:
        """Comments of a block that holds nothing else: quoted and waiver cover the next block, others are stray."""
        comments = [self.comments[int(m[1])] for m in _MARK.finditer(text)]
        self.stray += [c for c in comments if c.kind not in {Kind.QUOTED, Kind.WAIVER}]
        return [c for c in comments if c.kind in {Kind.QUOTED, Kind.WAIVER}]

    def _covered(self, sentences: Sequence[Sentence], pending: Sequence[Comment]) -> Iterator[Sentence]:
        for s in sentences:
            yield replace(s, marks=(*s.marks, *(Mark(len(s.text), c) for c in pending))) if pending else s

    def _sentences(self, text: str, line: int, context: str) -> Iterator[Sentence]:
        """Yield the sentences of flattened ``text`` (newlines kept) that begins in ``line``."""
        start = 0
        for end in _ends(text):
            piece = text[start:end]
            lead = len(piece) - len(piece.lstrip())
            before = text[: start + lead]
            at = line + before.count("\n") + sum(self._heights[int(m[1])] for m in _MARK.finditer(before))
            clean, marks = self._unmark(piece.strip())
            if clean or marks:
                yield Sentence(clean, at, marks, context)
            start = end

    def _unmark(self, text: str) -> tuple[str, tuple[Mark, ...]]:
        """Take the marks out of ``text`` and collapse its white space."""
        clean, marks, position = "", list[Mark](), 0
        for match in [*_MARK.finditer(text), None]:
            piece = text[position : match.start()] if match else text[position:]
            piece = re.sub(r"\s+", " ", piece)
            if (clean.endswith(" ") or not clean) and piece.startswith(" "):
                piece = piece[1:]
            clean += piece
            if match:
                marks.append(Mark(len(clean), self.comments[int(match[1])]))
                position = match.end()
        return clean.rstrip(), tuple(marks)

    def _table(self, tokens: Sequence[Token], context: str) -> Iterator[Sentence]:
        """Yield the cells of a table; each is a statement together with its header and its row's labels."""
        header: list[tuple[str, tuple[Mark, ...]]] = []
        row: list[tuple[str, tuple[Mark, ...]]] = []
        line = 1
        for token in tokens:
            if token.type == "tr_open":
                row, line = [], self.line(token.map[0]) if token.map else line
            elif token.type == "inline":
                row.append(self._unmark(_flatten(token)))
            elif token.type == "tr_close" and not header:
                header = row
                for text, marks in header:
                    yield Sentence(text, line, marks, context, cell=True)
            elif token.type == "tr_close":
                yield from self._row(row, header, line, context)

    def _row(
        self,
        row: Sequence[tuple[str, tuple[Mark, ...]]],
        header: Sequence[tuple[str, tuple[Mark, ...]]],
        line: int,
        context: str,
    ) -> Iterator[Sentence]:
        """Labels of a row are the cells before its first bound one; each is read with its header behind it."""
        bound = [i for i, (_, marks) in enumerate(row) if marks]
        labelled = row[: bound[0]] if bound else row[:1]
        labels = "; ".join(f"{text} {header[i][0]}".strip() for i, (text, _) in enumerate(labelled))
        for i, (text, marks) in enumerate(row):
            own = header[i][0] if i < len(header) else ""
            # A comment in the header covers its column.
            covering = tuple(
                Mark(len(text), m.comment)
                for m in (header[i][1] if i < len(header) else ())
                if m.comment.kind in {Kind.QUOTED, Kind.WAIVER}
            )
            statement = f"{labels}; {own}" if i >= len(labelled) else ""
            yield Sentence(text, line, marks + covering, context, statement.strip("; "), own, cell=True)


def _flatten(token: Token) -> str:
    """Return the words of an inline token, comments still marks, line breaks kept as newlines."""
    out: list[str] = []
    for child in token.children or []:
        if child.type == "text":
            out.append(child.content)
        elif child.type in {"softbreak", "hardbreak"}:
            out.append("\n")
        elif child.type == "image":
            out.append(_flatten(child))
        elif child.type == "code_inline":
            plain = _MARK.sub("", child.content)
            out.append(plain if _WORD.match(plain) else "…")
        elif child.type == "html_inline" and re.match(r"<br\b", child.content, re.IGNORECASE):
            out.append(" ")
    return _URL.sub("…", "".join(out))


def _ends(text: str) -> Iterator[int]:
    """Yield where the sentences of ``text`` end; a comment behind a full stop belongs to the sentence before."""
    for match in _END.finditer(text):
        stop = re.match(r"[.!?]+", match[0])
        if stop and not _ABBREVIATION.search(text[: match.start() + stop.end()]):
            yield match.end()
    yield len(text)


def _in_list(token: Token, tokens: Sequence[Token], i: int) -> bool:
    """Whether the inline token at ``i`` is inside a list item: it does not end the context of the list."""
    return token.level > 1 and any(t.type == "list_item_open" for t in tokens[max(0, i - 3) : i])


def _before_table(tokens: Sequence[Token], i: int) -> bool:
    """Whether the next block after the inline token at ``i`` is a table: its paragraph is the caption."""
    following = next((t for t in tokens[i + 1 :] if t.type != "paragraph_close"), None)
    return following is not None and following.type == "table_open"
