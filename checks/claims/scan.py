"""Every claim of the documents: what is bound is judged, what is not bound is found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.claims import documents, suggest
from checks.claims.judge import Bound, Judge
from checks.claims.lexicon import Lexicon
from checks.claims.macros import MalformedCallError, parse_call
from checks.claims.markdown import Mark, Sentence, read
from checks.claims.model import Claim, ClaimsResult, Kind, Verdict
from checks.claims.printed import Printed, header_unit, number_before, numbers
from checks.claims.reading import Clause
from checks.claims.sandbox import Sandbox
from checks.claims.wording import Comparative, Relation, clauses, comparatives, sameness

# The words of a sentence about somebody unnamed that is a rule, a condition or a question and no statement.
_NO_STATEMENT = re.compile(
    r"\b(?:if|when|whenever|where|whether|unless|until|must|needs? to|need|can|cannot|may|might|should|shall|would|could|an?|any|no|every|each|which|who|whose|that|so that|to)\b|\?",
    re.IGNORECASE,
)
_COUNTS = {"cells", "positions"}
# A number that a policy gives was not measured.
_THRESHOLD = re.compile(r"\b(?:policy(?:'s)?|threshold(?: of| is|:)?|limit(?: of| is|:)?) \Z", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """A clause of a sentence with the marks in it."""

    clause: Clause
    start: int
    end: int
    marks: Sequence[Mark]


class Scanner:
    """Scans documents over one warehouse."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.lexicon: Lexicon = judge.lexicon

    def scan(self, document: str, source: str) -> Iterator[Claim]:
        """Yield the claims of Markdown ``source``, in order; ``document`` is the name that they carry."""
        parsed = read(source)
        for sentence in parsed.sentences:
            yield from self._sentence(document, sentence)
        for comment in parsed.stray:
            yield Claim(
                document, comment.line, "", comment.kind, comment.body, Verdict.REJECTED,
                "the comment stands alone and binds nothing: put it behind the words that it is about",
            )  # fmt: skip

    def bindings(self, source: str) -> Iterator[tuple[Sentence, Mark, Bound]]:
        """Yield every bound number of ``source`` with the sentence that it stands in."""
        for sentence in read(source).sentences:
            for span in spans(sentence):
                for mark in span.marks:
                    if mark.comment.kind is Kind.NUMBER:
                        yield sentence, mark, bind(sentence, span, mark)

    def _sentence(self, document: str, sentence: Sentence) -> Iterator[Claim]:
        shown = f"{sentence.labels}: {sentence.text}" if sentence.labels else sentence.text
        for mark in sentence.marks:
            if mark.comment.kind in {Kind.QUOTED, Kind.WAIVER, Kind.UNKNOWN}:
                yield self._listed(document, shown, mark)
        for span in spans(sentence):
            for mark in span.marks:
                bound = bind(sentence, span, mark)
                number = mark.comment.kind is Kind.NUMBER
                outcome = self.judge.judge(bound, number=number)
                hint = ""
                if outcome.verdict is not Verdict.HOLDS:
                    hint = suggest.nearest(self.judge, mark.comment.body)
                yield Claim(
                    document, mark.comment.line, shown, mark.comment.kind, mark.comment.body,
                    outcome.verdict, outcome.reason, outcome.rows, hint,
                )  # fmt: skip
            yield from self._unbound(document, sentence, span, shown)

    def _listed(self, document: str, shown: str, mark: Mark) -> Claim:
        comment = mark.comment
        verdict, reason = {
            Kind.QUOTED: (Verdict.QUOTED, f"from {comment.body}"),
            Kind.WAIVER: (Verdict.WAIVED, comment.body),
        }.get(
            comment.kind,
            (Verdict.REJECTED, "the comment is none of '= SELECT', 'claim:', 'quoted:', 'not-a-claim:'"),
        )
        if comment.kind is not Kind.UNKNOWN and len(re.findall(r"\w", comment.body)) < 3:  # noqa: PLR2004
            verdict = Verdict.REJECTED
            reason = (
                "a quotation names its source" if comment.kind is Kind.QUOTED else "a waiver gives its reason"
            )
        return Claim(document, comment.line, shown, comment.kind, comment.body, verdict, reason)

    def _unbound(self, document: str, sentence: Sentence, span: Span, shown: str) -> Iterator[Claim]:
        """Yield figures and comparisons of a clause that neither a binding nor a listed comment covers."""
        covered_to = max(
            (
                m.offset
                for m in sentence.marks
                if m.comment.kind in {Kind.QUOTED, Kind.WAIVER} and m.comment.body
            ),
            default=-1,
        )

        def finding(what: str, number: Printed | None = None) -> Claim:
            printed: tuple[Printed, ...] = ()
            before = after = ""
            if number is not None:
                printed = (number,)
                before, after = sentence.text[: number.start], sentence.text[number.end :]
            hint = suggest.binding(self.judge, Bound("", span.clause, printed, before, after))
            return Claim(document, sentence.line, shown, Kind.NONE, "", Verdict.UNBOUND, what, (), hint)

        for number in _figures(sentence, span):
            if number.end > covered_to and number.start not in _bound_starts(sentence):
                text = sentence.text[number.start : number.end]
                yield finding(f"'{text}' is bound to nothing", number)
        if (
            (same := sameness(span.clause.text))
            and span.start + same.end() > covered_to
            and self._names_contestant(f"{sentence.labels} {sentence.text}")
            and not any(_of_gate(m) for m in span.marks)
        ):
            yield finding(f"'{same[0]}' is what the gate measures and is bound to nothing")
            return
        if any(_comparative_macro(m) for m in span.marks):
            return
        for c in self._statements(sentence, span):
            if span.start + c.end > covered_to:
                yield finding(f"'{c.text}' compares contestants and is bound to nothing")
                return

    def _names_contestant(self, text: str) -> bool:
        """Whether ``text`` names a contestant, or a configuration of the gate in full."""
        return bool(self.lexicon.mentions(text) or self.lexicon.configurations_named(text))

    def _statements(self, sentence: Sentence, span: Span) -> list[Comparative]:
        """Comparatives of the clause that are about contestants, named in the sentence or meant by it."""
        found = comparatives(span.clause.text)
        if not found:
            return []
        around = f"{sentence.labels} {sentence.text}"
        if self._names_contestant(around):
            return found
        if sentence.cell and self.lexicon.mentions(sentence.context):
            return found
        # Somebody is meant: "It is faster than every rival." A rule or a question states nothing.
        if not self.lexicon.names_somebody(around):
            return []
        return [
            c
            for c in found
            if c.relation not in {Relation.OTHER, Relation.SPEEDUP}
            and not _NO_STATEMENT.search(span.clause.text[: c.end])
        ]


def spans(sentence: Sentence) -> list[Span]:
    """Return the clauses of a sentence; a table cell is one clause, read together with its labels.

    A number's comment belongs to the clause of its digits, a statement's to the last clause before it that compares.
    """
    pieces = [(0, len(sentence.text))]
    if not sentence.cell:
        pieces = clauses(sentence.text, sorted(_last_starts(sentence)))
    texts = [_words(sentence, a, b) for a, b in pieces]
    marks: list[list[Mark]] = [[] for _ in pieces]
    for mark in sentence.marks:
        if mark.comment.kind is Kind.NUMBER:
            digits = [n.start for n in number_before(sentence.text, mark.offset)] or [max(0, mark.offset - 1)]
            marks[max(i for i, (a, _) in enumerate(pieces) if a <= digits[-1])].append(mark)
        elif mark.comment.kind is Kind.STATEMENT:
            before = [i for i, (a, _) in enumerate(pieces) if a < mark.offset or i == 0]
            comparing = [i for i in before if comparatives(texts[i])]
            marks[(comparing or before)[-1]].append(mark)
    out = []
    for i, (start, end) in enumerate(pieces):
        before_it = list(reversed(texts[:i]))
        context = [sentence.context] if sentence.context else []
        clause = Clause(
            texts[i], start, [*before_it, *context], [*before_it, *texts[i + 1 :], *context], sentence.labels
        )
        out.append(Span(clause, start, end, marks[i]))
    return out


def bind(sentence: Sentence, span: Span, mark: Mark) -> Bound:
    """Return what ``mark`` binds: its clause, and the number directly before it."""
    printed = number_before(sentence.text, mark.offset) if mark.comment.kind is Kind.NUMBER else []
    unit = header_unit(sentence.header) if sentence.cell else None
    printed = [Printed(n.value, n.step, n.unit or unit, n.start, n.end, n.text) for n in printed]
    bound = _bound_starts(sentence)
    counts = [
        int(n.value) for n in numbers(sentence.text)
        if n.unit in _COUNTS and span.start <= n.start < span.end and n.start not in bound
    ]  # fmt: skip
    before = sentence.text[: printed[0].start] if printed else ""
    return Bound(mark.comment.body, span.clause, printed, before, sentence.text[mark.offset :], counts)


def _words(sentence: Sentence, start: int, end: int) -> str:
    """The clause's words with its figures blanked, so that no figure is read as a number of tokens."""
    bound = _bound_starts(sentence)
    text = sentence.text
    for n in numbers(text):
        if n.unit is not None or n.start in bound:
            stop = n.end if n.unit not in _COUNTS else n.start + len(n.text)
            text = text[: n.start] + " " * (stop - n.start) + text[stop:]
    return text[start:end]


def _bound_starts(sentence: Sentence) -> set[int]:
    return {
        n.start for m in sentence.marks if m.comment.kind is Kind.NUMBER for n in _all_bound(sentence.text, m)
    }


def _last_starts(sentence: Sentence) -> set[int]:
    """Where the number directly before each comment begins; the other end of a range is in the same clause."""
    bound = [m for m in sentence.marks if m.comment.kind is Kind.NUMBER]
    return {found[-1].start for m in bound if (found := number_before(sentence.text, m.offset))}


def _all_bound(text: str, mark: Mark) -> list[Printed]:
    """The numbers that a comment binds: both ends of a range only where its query gives both."""
    found = number_before(text, mark.offset)
    try:
        call = parse_call(mark.comment.body)
    except MalformedCallError:
        return found
    both = call is not None and call.macro.ranged and not call.part
    return found if both else found[-1:]


def _figures(sentence: Sentence, span: Span) -> Iterator[Printed]:
    """Yield the numbers of a clause that carry a performance unit; in a table the header may give it.

    A count of cells in a clause with a binding is compared with that binding instead.
    """
    unit = header_unit(sentence.header) if sentence.cell else None
    for n in numbers(sentence.text):
        if not span.start <= n.start < span.end:
            continue
        of = n.unit or unit
        if of == "logits" and _THRESHOLD.search(sentence.text[: n.start]):
            continue
        if of is not None and not (of in _COUNTS and span.marks):
            yield n


def _of_gate(mark: Mark) -> bool:
    """Whether a mark answers for what its clause says of the gate, well or badly."""
    try:
        call = parse_call(mark.comment.body)
    except MalformedCallError:
        return True
    return mark.comment.kind is Kind.STATEMENT or call is None or call.macro.domain == "gate"


def _comparative_macro(mark: Mark) -> bool:
    """Whether a mark answers for the comparison of its clause, well or badly."""
    try:
        call = parse_call(mark.comment.body)
    except MalformedCallError:
        return True
    return mark.comment.kind is Kind.STATEMENT or (call is not None and bool(call.macro.relations))


def scan(project_root: Path, db: Path) -> ClaimsResult:
    """Judge every claim in the documents of a project over a warehouse.

    Raises:
        ChecksError: pyproject.toml, a document or the warehouse cannot be read.
    """
    found = documents.find(project_root)
    sandbox = Sandbox(db)
    try:
        scanner = Scanner(open_judge(project_root, sandbox))
        names = [p.relative_to(project_root).as_posix() for p in found]
        claims = [
            Claim(name, 0, name, Kind.NONE, "", Verdict.UNJUDGED, "the document is listed and is not there")
            for name in documents.absent(project_root)
        ]
        for name, path in zip(names, found, strict=True):
            claims += scanner.scan(name, documents.text_of(path))
    finally:
        sandbox.close()
    return ClaimsResult(tuple(names), tuple(claims))


def open_judge(project_root: Path, sandbox: Sandbox) -> Judge:
    """Return a judge over ``sandbox`` that knows the project's policy of today, where it has one."""
    policy = project_root / "checks" / "policy.toml"
    text = documents.text_of(policy) if policy.is_file() else None
    return Judge(sandbox, Lexicon.of(sandbox.rows), text)
