"""The report: Markdown and one self-contained HTML file, written only behind a passing gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checks import receipt as receipts
from checks.errors import ReportError
from checks.gate import GateResult
from checks.model import Status
from checks.report.content import blocks
from checks.report.data import gather
from checks.report.render import render
from checks.report.sections import gather as gather_sections
from checks.session import Session


def compose(session: Session, gate: GateResult) -> dict[str, str]:
    """Return the report as ``report.md`` and ``report.html``; whether it may be written is not asked here."""
    data = gather(session.con)
    context: dict[str, Any] = {
        "data": data,
        "blocks": blocks(data),
        "sections": gather_sections(session.con),
        "gate": gate,
        "claims": session.claims(),
        "build": session.build_info,
        "fingerprint": session.fingerprint,
        "versions": receipts.versions(),
    }
    return {f"report.{kind}": render(kind, context) for kind in ("md", "html")}


def write(session: Session, gate: GateResult, out: Path) -> list[Path]:
    """Write ``report.md``, ``report.html`` and, last, ``receipt.json`` into ``out``; return their paths.

    Raises:
        ValueError: the gate does not hold.
        ReportError: the folder cannot be written.

    """
    if gate.exit_code != 0:
        raise ValueError("a report is written only behind a passing gate")
    files = {name: text.encode() for name, text in compose(session, gate).items()}
    counts = {s.value: gate.count(s) for s in Status} | {"warnings": len(gate.warnings)}
    receipt = receipts.make(
        fingerprint=session.fingerprint, policy_sha256=session.policy_sha256, counts=counts, reports=files
    )
    files["receipt.json"] = (json.dumps(receipt, indent=2) + "\n").encode()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _replace(out / name, content)
    except OSError as error:
        raise ReportError(
            f"the report cannot be written to {out} ({error.strerror}); name another --out"
        ) from None
    return [out / name for name in files]


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
