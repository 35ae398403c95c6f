"""Questions to the lake that can neither touch it nor anything else.

The warehouse is attached read-only to a database in memory with file access off and settings locked; a question is
one SELECT, with limits on time, rows and memory. A second database of the same shape and without a row of evidence
tells a claim from a tautology: what stays true there proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

import queries
from checks.claims.watchdog import Watchdog
from checks.errors import NoDatabaseError

SECONDS = 5.0
MAX_ROWS = 10_000
MEMORY = "2GB"
_QUERIES = Path(queries.__file__).parent
# What the lexicon is read from; a warehouse of an older version lacks some of it.
_NEEDED = ("winners", "run_roster", "gate_runs", "decode_runs", "serving_entrants")
_MACROS_OVER_VIEWS = "*_claim_macros*.sql"
# What gives another answer each time, or tells about the machine instead of the lake.
_FORBIDDEN_FUNCTIONS = (
    "random", "setseed", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "now", "today", "current_date", "current_timestamp", "current_time",
    "get_current_time", "get_current_timestamp", "transaction_timestamp", "current_setting", "getenv", "getvariable", "version",
)  # fmt: skip

Row = tuple[Any, ...]


class QueryRefusedError(Exception):
    """The query is not one that could prove anything, or not allowed."""


class QueryBrokeError(Exception):
    """The query could not be evaluated."""


@dataclass(frozen=True)
class Answer:
    """Columns and rows of a question."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass
class Sandbox:
    """One warehouse, read-only. Answers are kept: the file cannot change under a sandbox."""

    db: Path
    seconds: float = SECONDS
    max_rows: int = MAX_ROWS
    _answers: dict[str, Answer | QueryBrokeError] = field(default_factory=dict)
    _checked: dict[str, QueryRefusedError | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the warehouse.

        Raises:
            NoDatabaseError: there is none at ``db``, or it is none.
        """
        if not self.db.is_file():
            raise NoDatabaseError(f"there is no warehouse at {self.db}; run 'warehouse build' first")
        self._watchdog = Watchdog(self.seconds)
        self._con = self._memory()
        try:
            self._con.execute(f"ATTACH '{str(self.db).replace(chr(39), chr(39) * 2)}' AS lake (READ_ONLY)")
            self._con.execute("USE lake")
            self._lock(self._con)
            for view in _NEEDED:
                self._con.execute(f"SELECT 1 FROM {view} LIMIT 0")
        except duckdb.Error as error:
            raise NoDatabaseError(
                f"{self.db} is no warehouse ({_first_line(error)}); run 'warehouse build'"
            ) from None

    def close(self) -> None:
        """Close both databases."""
        self._watchdog.close()
        self._con.close()
        if "_empty" in self.__dict__:
            self._empty.close()

    def ask(self, sql: str) -> Answer:
        """Return the answer to ``sql``, one SELECT.

        Raises:
            QueryRefusedError: it is no single SELECT, or calls a function that is no evidence.
            QueryBrokeError: it fails, takes longer than the limit, or returns too many rows.
        """
        self._check(sql)
        if sql not in self._answers:
            try:
                self._answers[sql] = self._run(self._con, sql)
            except QueryBrokeError as error:
                self._answers[sql] = error
        answer = self._answers[sql]
        if isinstance(answer, QueryBrokeError):
            raise answer
        return answer

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of ``sql``, a query of ours."""
        return list(self.ask(sql).rows)

    def without_evidence(self, sql: str) -> Answer:
        """Return the answer to ``sql`` over the same tables and views without a single row."""
        return self._run(self._empty, sql)

    def why_it_proves_nothing(self, sql: str) -> str | None:
        """Return why hand-written ``sql`` is no evidence whatever the lake holds, None where it may be.

        Decided on the parsed query: it must read a table or view of the lake, and contain no comparison that is
        true by itself. Then over a lake without rows: what is true there is true without evidence.
        """
        tree = self._tree(sql)
        reads = {t.lower() for t in _tables(tree)} & self._names
        calls = {n.lower() for n in _functions(tree)} & self._macros
        if not reads and not calls:
            return "the query reads no table or view of the lake; a constant proves nothing"
        items = [item for s in tree["statements"] for item in s["node"].get("select_list", [])]
        if any(_is_constant(item, self._macros) for item in items):
            return "the query selects a constant; a constant proves nothing"
        if why := _tautology(tree, self._macros):
            return why
        try:
            answer = self.without_evidence(sql)
        except QueryBrokeError:
            return None  # the real lake says what is wrong
        if answer.rows and all(row[0] is True for row in answer.rows):
            return "the query stays true when all evidence is removed from the lake; it proves nothing"
        return None

    def literals(self, sql: str) -> frozenset[str]:
        """Return the numbers that stand in the select list of hand-written ``sql``."""
        found = set[str]()
        for statement in self._tree(sql)["statements"]:
            for item in statement["node"].get("select_list", []):
                found |= {text for text in map(_literal, _walk(item)) if text is not None}
        return frozenset(found)

    def _check(self, sql: str) -> None:
        if sql not in self._checked:
            try:
                self._judge(sql)
                self._checked[sql] = None
            except QueryRefusedError as error:
                self._checked[sql] = error
        refusal = self._checked[sql]
        if refusal is not None:
            raise refusal

    def _judge(self, sql: str) -> None:
        if not sql.strip():
            raise QueryRefusedError("there is no query in the comment")
        try:
            statements = self._con.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryRefusedError(f"the query is no SQL: {_first_line(error)}") from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryRefusedError("the query has to be exactly one SELECT")
        for name in _functions(self._tree(sql)):
            if name.lower() in _FORBIDDEN_FUNCTIONS:
                raise QueryRefusedError(f"the query calls {name}(), which is no evidence")

    def _tree(self, sql: str) -> dict[str, Any]:
        row = self._con.execute("SELECT json_serialize_sql(?)", [sql.rstrip().rstrip(";")]).fetchone()
        tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
        if tree.get("error"):
            raise QueryRefusedError(
                f"the query cannot be read: {tree.get('error_message', 'no reason given')}"
            )
        return tree

    def _run(self, con: duckdb.DuckDBPyConnection, sql: str) -> Answer:
        try:
            with self._watchdog.over(con):
                cursor = con.execute(sql)
                rows = cursor.fetchmany(self.max_rows + 1)
            columns = tuple(column[0] for column in cursor.description or ())
        except duckdb.InterruptException:
            raise QueryBrokeError(f"the query took longer than {self.seconds:g} s") from None
        except duckdb.Error as error:
            raise QueryBrokeError(f"the query broke: {_first_line(error)}") from None
        if len(rows) > self.max_rows:
            raise QueryBrokeError(f"the query returns more than {self.max_rows} rows")
        return Answer(columns, tuple(rows))

    @staticmethod
    def _memory() -> duckdb.DuckDBPyConnection:
        # One thread: a question is small, and there are hundreds of them.
        return duckdb.connect(":memory:", config={"memory_limit": MEMORY, "threads": 1})

    @staticmethod
    def _lock(con: duckdb.DuckDBPyConnection) -> None:
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")

    @cached_property
    def _names(self) -> frozenset[str]:
        """Tables and views of the lake, in lower case."""
        return frozenset(
            str(r[0]).lower()
            for r in self._con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake' "
                "UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = 'lake' AND NOT internal"
            ).fetchall()
        )

    @cached_property
    def _macros(self) -> frozenset[str]:
        """Macros of the lake that read its views."""
        found = self._con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'lake' "
            "AND function_type IN ('macro', 'table_macro') AND macro_definition ILIKE '%FROM%'"
        ).fetchall()
        return frozenset(str(r[0]).lower() for r in found)

    @cached_property
    def _empty(self) -> duckdb.DuckDBPyConnection:
        """The same tables without rows, the same views and macros over them."""
        con = self._memory()
        con.execute(f"ATTACH '{str(self.db).replace(chr(39), chr(39) * 2)}' AS lake (READ_ONLY)")
        for file in sorted((_QUERIES / "macros").glob("*.sql")):
            con.execute(file.read_text(encoding="utf-8"))
        tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'").fetchall()
        for (table,) in tables:
            con.execute(f'CREATE TABLE "{table}" AS FROM lake."{table}" LIMIT 0')
        views = [
            str(r[0])
            for r in con.execute(
                "SELECT sql FROM duckdb_views() WHERE database_name = 'lake' AND NOT internal"
            ).fetchall()
        ]
        con.execute("DETACH lake")
        while views:  # a view can stand before those that it reads
            left = [sql for sql in views if not _created(con, sql)]
            if len(left) == len(views):
                break
            views = left
        for file in sorted((_QUERIES / "views").glob(_MACROS_OVER_VIEWS)):
            con.execute(file.read_text(encoding="utf-8"))
        self._lock(con)
        return con


def _created(con: duckdb.DuckDBPyConnection, sql: str) -> bool:
    try:
        con.execute(sql)
    except duckdb.Error:
        return False
    return True


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:240]


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


def _tables(tree: Any) -> Iterator[str]:
    for node in _walk(tree):
        if node.get("type") == "BASE_TABLE":
            path = node.get("qualified_name", {}).get("path") or [node.get("table_name", "")]
            yield str(node.get("table_name") or path[-1])


def _functions(tree: Any) -> Iterator[str]:
    for node in _walk(tree):
        if node.get("class") == "FUNCTION":
            yield str(node.get("function_name", ""))


def _literal(node: dict[str, Any]) -> str | None:
    """The number of a constant, in whichever of the two shapes DuckDB's versions write it."""
    if node.get("class") != "CONSTANT":
        return None
    literal, value = node.get("literal"), node.get("value")
    if isinstance(literal, dict):
        return str(literal["text"]) if literal.get("kind") in {"INTEGER", "NUMERIC"} else None
    if isinstance(value, dict) and not value.get("is_null"):
        kind = value.get("type", {})
        if kind.get("id") == "DECIMAL":
            scale = int(kind["type_info"]["scale"])
            return f"{int(value['value']) / 10**scale:.{scale}f}"
        return str(value["value"]) if kind.get("id") in {"INTEGER", "BIGINT", "DOUBLE"} else None
    return None


def _tautology(tree: Any, macros: Container[str]) -> str | None:
    """Return why some part of the parsed query is true by itself."""
    for node in _walk(tree):
        kind = node.get("class")
        if kind == "COMPARISON":
            left, right = node.get("left"), node.get("right")
            if _is_constant(left, macros) and _is_constant(right, macros):
                return "the query compares two constants; that proves nothing"
            if _shape(left) == _shape(right):
                return "the query compares something with itself; that proves nothing"
        if (
            kind == "CONJUNCTION"
            and node.get("type") == "CONJUNCTION_OR"
            and any(_is_constant(c, macros) for c in node.get("children", []))
        ):
            return "the query is true by an OR with a constant; that proves nothing"
    return None


def _is_constant(node: Any, macros: Container[str]) -> bool:
    """Whether an expression reads no column and no rows: 90.0 + 9.9 beside a table is none of its figures."""
    return not any(
        n.get("class") in {"COLUMN_REF", "SUBQUERY", "STAR", "WINDOW", "PARAMETER", "POSITIONAL_REFERENCE"}
        or (n.get("class") == "FUNCTION" and _reads_rows(str(n.get("function_name", "")).lower(), macros))
        for n in _walk(node)
    )


def _reads_rows(function: str, macros: Container[str]) -> bool:
    """Whether a function looks at rows without naming a column."""
    return function in macros or function in {"count", "count_star"}


def _shape(node: Any) -> Any:
    """The node without the places in the text that its parts came from."""
    if isinstance(node, dict):
        return {k: _shape(v) for k, v in node.items() if not k.startswith("query_location") and k != "alias"}
    return [_shape(v) for v in node] if isinstance(node, list) else node
