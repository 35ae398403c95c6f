"""What the documents of this repository show is what its commands and files give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from checks.cli import app as checks_app
from checks.table import table
from warehouse.build import build
from warehouse.cli import app as warehouse_app

ROOT = Path(__file__).parents[2]
APPS = {"checks": checks_app, "warehouse": warehouse_app}


def blocks(document: str, language: str) -> list[str]:
    """Fenced code of one language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_readme_has_the_table_that_its_command_prints(tmp_path: Path) -> None:
    build([ROOT / "data"], tmp_path / "warehouse.db")
    printed = table(tmp_path / "warehouse.db", "dispatch", "graph", "NVIDIA H200")
    assert len(printed.splitlines()) == 18  # caption, header, 14 rows
    assert printed in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_contestant_in_the_documents_is_the_example() -> None:
    (shown,) = blocks("docs/contestants.md", "python")
    example = (ROOT / "examples" / "third_party" / "matvec_contestant.py").read_text(encoding="utf-8")
    lines = [line for line in shown.splitlines() if line]
    assert len(lines) <= 30
    missing = [line for line in lines if line not in example]
    assert missing == []


def test_every_hook_is_a_command_with_options_that_exist() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    hooks = re.findall(r"^- id: (\S+)\n(.*?)(?=^- id:|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in hooks] == ["warehouse-build", "checks-fix", "checks-claims"]
    for name, body in hooks:
        found = re.search(r"^  entry: (.*)$", body, re.MULTILINE)
        assert found, name
        listed = re.search(r"^  args: \[(.*)\]$", body, re.MULTILINE)
        command = [*shlex.split(found[1]), *(listed[1].split(", ") if listed else [])]
        group = typer.main.get_command(APPS[command[0]])
        subcommand = group.commands[command[1]]  # type: ignore[attr-defined]
        options = {o for p in subcommand.params for o in p.opts}
        assert [o for o in command[2:] if o.startswith("--") and o not in options] == []
    documented = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert all(f"- id: {name}\n" in documented for name, _ in hooks)


DOCUMENTS = sorted(
    p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in headings}
            assert anchor in slugs, target
