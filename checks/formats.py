"""What ``checks run`` prints: text for people, JSON, JUnit XML and GitHub annotations for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from checks.gate import GateResult
from checks.model import Finding, RuleResult, Severity, Status

# Findings of one rule that text output prints; the rest are counted. Warnings must not bury what closes the gate.
SHOWN, SHOWN_WARNINGS = 20, 3


def text(gate: GateResult) -> str:
    """One line for each finding, then the counts."""
    lines = [line for result in (*gate.errors, *gate.warnings) for line in _text_lines(result)]
    return "\n".join([*lines, summary(gate)])


def summary(gate: GateResult) -> str:
    """Return the counts in one line."""
    rules = sum(gate.count(s) for s in Status)
    counts = [f"{gate.count(Status.HOLDS)} of {rules} rules hold"]
    counts += [f"{gate.count(s)} {s.value}" for s in Status if s is not Status.HOLDS]
    idle = f"; no rows for: {', '.join(gate.not_applicable)}" if gate.not_applicable else ""
    said = f"; {gate.sentences}" if gate.sentences is not None else ""
    return f"checks: {', '.join(counts)}, {len(gate.warnings)} warnings{said}{idle}"


def _text_lines(result: RuleResult) -> Iterator[str]:
    shown = SHOWN_WARNINGS if result.rule.severity is Severity.WARNING else SHOWN
    for finding in result.findings[:shown]:
        yield f"{label(result, finding)}  {result.rule.id}  {finding.line}"
    if len(result.findings) > shown:
        rest = len(result.findings) - shown
        yield f"... {rest} more of {result.rule.id}; `checks explain {result.rule.id}`"


def label(result: RuleResult, finding: Finding) -> str:
    """Return FALSE, UNJUDGED or WARNING."""
    return "WARNING" if result.rule.severity is Severity.WARNING else finding.status.name


def as_dict(gate: GateResult) -> dict[str, Any]:
    """Return the whole result as plain values."""
    return {
        "exit_code": gate.exit_code,
        "status": gate.status.value,
        "counts": {s.value: gate.count(s) for s in Status} | {"warnings": len(gate.warnings)},
        "not_applicable": list(gate.not_applicable),
        "sentences": asdict(gate.sentences) if gate.sentences is not None else None,
        "rules": [
            {
                "id": r.rule.id,
                "about": r.rule.about,
                "severity": r.rule.severity.value,
                "status": r.status.value,
                "rows": r.rows,
                "findings": [
                    {"status": f.status.value, "line": f.line, "row": dict(f.row)} for f in r.findings
                ],
            }
            for r in gate.results
        ],
    }


def as_json(gate: GateResult) -> str:
    """Return the whole result as JSON."""
    return json.dumps(as_dict(gate), indent=2, default=str, allow_nan=False)


def junit(gate: GateResult) -> str:
    """JUnit XML: false is a failure, not judged is an error, a warning is a passed case with its output."""
    root = ET.Element("testsuites", name="checks")
    for suite in dict.fromkeys(r.rule.suite for r in gate.results):
        results = [r for r in gate.results if r.rule.suite == suite]
        closing = [r for r in results if r.rule.severity is Severity.ERROR]
        element = ET.SubElement(
            root,
            "testsuite",
            name=suite,
            tests=str(len(results)),
            failures=str(sum(r.status is Status.FALSE for r in closing)),
            errors=str(sum(r.status is Status.UNJUDGED for r in closing)),
        )
        for result in results:
            case = ET.SubElement(
                element, "testcase", classname=suite, name=result.rule.id, time=f"{result.seconds:.3f}"
            )
            if result.status is Status.HOLDS:
                continue
            lines = [f"{label(result, f)}: {f.line}" for f in result.findings]
            if result.rule.severity is Severity.WARNING:
                ET.SubElement(case, "system-out").text = "\n".join(lines)
            else:
                tag = "failure" if result.status is Status.FALSE else "error"
                ET.SubElement(case, tag, message=lines[0]).text = "\n".join(lines)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def github(gate: GateResult) -> str:
    """GitHub workflow commands: an annotation for each finding, at its line where it has one."""
    lines = []
    for result in (*gate.errors, *gate.warnings):
        command = "warning" if result.rule.severity is Severity.WARNING else "error"
        for finding in result.findings:
            place = ""
            if finding.row.get("document"):
                place = f"file={_property(finding.row['document'])},line={finding.row['line']},"
            message = _escape(f"{label(result, finding)}: {finding.line}")
            lines.append(f"::{command} {place}title={_property(result.rule.id)}::{message}")
    return "\n".join([*lines, summary(gate)])


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _escape(str(value)).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[GateResult], str]] = {
    "text": text,
    "json": as_json,
    "junit": junit,
    "github": github,
}
