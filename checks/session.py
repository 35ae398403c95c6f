"""One warehouse opened for judging: a read-only connection, and the facts that the views do not have.

Those facts are temporary tables of the connection, so that every rule is a query:
``policy_today(key, value)``, ``policy_then(policy_sha256, key, value)``, ``lake_state(lake, state)``,
``receipt_state(receipt, aspect, state)`` and ``claims(...)``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb

from checks import gate as gates
from checks import policy as policies
from checks import receipt as receipts
from checks.errors import ChecksError, NoDatabaseError
from checks.freshness import lake_states
from checks.judge import Validate, make_validator
from checks.model import Rule, RuleResult
from warehouse.lake import require_text

NEEDED = (
    *("build_info", "lake_files", "policies", "policy_values", "winners", "contestant_status"),
    *("gate_runs", "decode_runs", "serving_entrants", "points_summary"),
)
CLAIM_COLUMNS = ("document", "line", "sentence", "kind", "query", "verdict", "reason", "judged")
CLAIM_TYPES = {"line": "BIGINT", "judged": "BOOLEAN"}


class Session:
    """A warehouse, the lakes it should be current with, the policy of today and the project's documents.

    Raises:
        ChecksError: a file is missing or is not what it should be.
        PolicyError: the policy of today is malformed.

    """

    def __init__(self, db: Path, lakes: list[Path] | None, policy: Path | None, project: Path) -> None:
        self.db, self.project = db, project
        self.con = _open(db)
        today = policies.load_policy(policy)
        self.policy_sha256 = today.sha256
        self.build_info: dict[str, str] = dict(
            self.con.execute("SELECT key, value FROM build_info").fetchall()
        )
        self._table("policy_today", "key VARCHAR, value VARCHAR", policies.values(today.text))
        registered = self.con.execute("SELECT policy_sha256, policy_toml FROM policies").fetchall()
        self._table(
            "policy_then",
            "policy_sha256 VARCHAR, key VARCHAR, value VARCHAR",
            [(sha256, key, value) for sha256, text in registered for key, value in _keys(text)],
        )
        self._table("lake_state", "lake VARCHAR, state VARCHAR", lake_states(self.build_info, lakes))

    def __enter__(self) -> Self:
        """Return the session itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.con.close()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the lake that the warehouse was built from."""
        return self.build_info.get("lake_fingerprint", "unknown")

    @cached_property
    def validate(self) -> Validate:
        """The validator, made when the first rule is judged."""
        return make_validator()

    def gate(
        self, suites: Sequence[str], receipt: Path | None = None, *, needed: bool = False
    ) -> gates.GateResult:
        """Judge the suites (none named: all that have rows), with the receipt of an earlier report.

        Raises:
            ChecksError: an unknown suite, or a receipt that is ``needed`` and is not there.

        """
        if needed and not (receipt and receipt.exists()):
            raise ChecksError(f"there is no receipt at {receipt}; run `checks report` or leave --receipt out")
        self._read_receipt(receipt)
        unbound = () if _documents_are_named(self.project) else ("claims",)
        chosen, idle = gates.choose(self.con, suites, without=unbound)
        sentences = None
        if any(s.name == "claims" for s in chosen):
            self.scan_claims()
            sentences = self._sentences()
        return gates.run(self.con, chosen, self.validate, idle, sentences)

    def scan_claims(self) -> None:
        """Scan the project's documents into the table ``claims``."""
        from checks.claims import scan  # noqa: PLC0415  (needed by one suite)

        found = [{**row, "hint": _hint(row["suggestion"])} for row in scan(self.project, self.db).rows()]
        columns = [*CLAIM_COLUMNS, "hint"]
        types = ", ".join(f"{c} {CLAIM_TYPES.get(c, 'VARCHAR')}" for c in columns)
        self._table("claims", types, [tuple(row[c] for c in columns) for row in found])

    def _sentences(self) -> gates.Sentences:
        """Count the sentences of the last scan; one with several bindings holds if all of them do."""
        counts = self.con.execute(
            """
            SELECT count(*) FILTER (WHERE proves), count(*) FILTER (WHERE proves AND holds),
                count(*) FILTER (WHERE quotes), count(*) FILTER (WHERE waives)
            FROM (
                SELECT bool_or(verdict NOT IN ('quoted', 'waived')) AS proves,
                    bool_and(judged IS NOT DISTINCT FROM TRUE) AS holds,
                    bool_or(verdict = 'quoted') AS quotes, bool_or(verdict = 'waived') AS waives
                FROM claims WHERE verdict <> 'scanned' GROUP BY document, sentence
            )
            """
        ).fetchone()
        return gates.Sentences(*(counts or (0, 0)))

    def claims(self) -> list[dict[str, Any]]:
        """Return the claims of the last scan, without the rows that stand for whole documents."""
        if not _present(self.con, "claims"):
            return []
        frame = self.con.execute(
            "SELECT * FROM claims WHERE verdict <> 'scanned' ORDER BY document, line, kind, sentence"
        )
        names = [d[0] for d in frame.description or ()]
        return [dict(zip(names, values, strict=True)) for values in frame.fetchall()]

    def explain(self, rule: Rule, receipt: Path) -> tuple[str, RuleResult]:
        """Return the rows that the rule's query gives, as a text table, and what the rule came to."""
        self._read_receipt(receipt)
        if rule.suite == "claims":
            self.scan_claims()
        try:
            rows = str(self.con.sql(rule.query))
        except duckdb.Error as error:
            rows = f"the query broke: {error}"
        return rows, gates.judge_rule(self.con, rule, self.validate)

    def _read_receipt(self, path: Path | None) -> None:
        """Put what the receipt at ``path`` vouches for into its table, or that there is no report."""
        rows = [(str(path), "report", receipts.NO_REPORT)]
        if path is not None and path.exists():
            states = receipts.verify(path, fingerprint=self.fingerprint, policy_sha256=self.policy_sha256)
            rows = [(str(path), aspect, state) for aspect, state in states]
        self._table("receipt_state", "receipt VARCHAR, aspect VARCHAR, state VARCHAR", rows)

    def _table(self, name: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            self.con.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


def _open(db: Path) -> duckdb.DuckDBPyConnection:
    require_text(db)
    if not db.is_file():
        raise NoDatabaseError(f"there is no warehouse at {db}; run `warehouse build` or name one with --db")
    try:
        con = duckdb.connect(str(db), read_only=True, config={"autoinstall_known_extensions": False})
    except duckdb.Error as error:
        why = " ".join(str(error).split())[:160]
        raise NoDatabaseError(
            f"{db} cannot be opened as a DuckDB database ({why}); run `warehouse build`"
        ) from None
    absent = [name for name in NEEDED if not _present(con, name)]
    if absent:
        con.close()
        raise NoDatabaseError(
            f"{db} has no {', '.join(absent)}: it is no warehouse, or of an older version; run `warehouse build`"
        )
    return con


def _documents_are_named(project: Path) -> bool:
    """Whether the project's pyproject.toml says which documents make claims.

    Raises:
        ChecksError: the file is no TOML.
    """
    path = project / "pyproject.toml"
    if not path.is_file():
        return False
    try:
        return "documents" in tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get(
            "checks", {}
        )
    except ValueError as error:
        raise ChecksError(f"{path} is malformed ({error}); mend it") from None


def _keys(policy_toml: str) -> list[tuple[str, str]]:
    """Return the keys of a policy of the lake; of one that is no TOML, none: it could not be judged."""
    try:
        return policies.values(policy_toml)
    except policies.PolicyError:
        return []


def _hint(suggestion: str) -> str:
    return f"; {suggestion}" if suggestion else ""


def _present(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    query = "SELECT count(*) FROM information_schema.tables WHERE table_name = ?"
    return con.execute(query, [table]).fetchone() != (0,)
