"""Stale numbers are rewritten at their precision and unit; nothing else ever is."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.claims import fix, scan
from checks.claims.model import Verdict
from checks.errors import ChecksError
from tests.checks.claims.world import Oracle

C = "deepseek-moe-16b"
CELL = f"{C}/bf16/uniform/1"
TIME = f"<!-- = SELECT time_us('dispatch', '{CELL}', mode := 'graph') -->"
SPEEDUP = f"<!-- = SELECT speedup('dispatch', 'vllm', '{CELL}', mode := 'graph') -->"
WHERE = "at 1 token in bf16, uniform routing, graph mode"


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(
        '[tool.checks]\ndocuments = ["README.md", "docs/**/*.md"]\n', encoding="utf-8"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
    return folder


def test_only_stale_numbers_change(tmp_path: Path, world: tuple[Path, Path], oracle: Oracle) -> None:
    time, ratio = (
        oracle.time("dispatch", (CELL, "graph")),
        oracle.speedup("dispatch", "vllm", (CELL, "graph")),
    )
    text = (
        f"dispatch takes 80.1 us{TIME} {WHERE}.\n\nAgain, dispatch takes 0.0801 ms{TIME}\n{WHERE}.\n\n"
        f"vLLM is **9.99x**{SPEEDUP} slower than dispatch {WHERE}. Here 80.1 stays.\n"
    )
    root = project(tmp_path, text)
    dry = fix(root, world[1], dry_run=True)
    assert (root / "README.md").read_text(encoding="utf-8") == text
    assert fix(root, world[1]) == dry
    expected = (
        text.replace("80.1 us", f"{time:.1f} us")
        .replace("0.0801", f"{time / 1000:.4f}")
        .replace("9.99", f"{ratio:.2f}")
    )
    assert (root / "README.md").read_text(encoding="utf-8") == expected
    assert {r.line for r in dry} == {1, 3, 6}
    assert fix(root, world[1]) == []
    assert [c.verdict for c in scan(root, world[1]).claims] == [Verdict.HOLDS] * 3


@pytest.mark.parametrize(
    "text",
    [
        f"dispatch is 1.17x{SPEEDUP} slower than vLLM {WHERE}.",  # the direction is wrong, not the number
        f"vLLM takes 80.1 us{TIME} {WHERE}.",  # another contestant
        f"dispatch takes 80.1 us{TIME} at 16 tokens in bf16, uniform routing, graph mode.",  # another cell
        f"dispatch wins at 128 tokens.<!-- claim: SELECT wins('dispatch', '{C}/*/*/128') -->",
        "The rows are 31<!-- = SELECT count(*) FROM winners -->.",  # hand-written: a person looks
    ],
)
def test_a_sentence_is_never_rewritten(tmp_path: Path, world: tuple[Path, Path], text: str) -> None:
    root = project(tmp_path, text)
    assert fix(root, world[1]) == []
    assert (root / "README.md").read_text(encoding="utf-8") == text
    assert scan(root, world[1]).exit_code == 1


def test_exit_codes_of_a_scan(tmp_path: Path, world: tuple[Path, Path]) -> None:
    good = f"dispatch wins at 1 token.<!-- claim: SELECT wins('dispatch', '{C}/*/*/1') -->\n\n"
    unknown = "A 3<!-- = SELECT tokens FROM winners WHERE tokens = 4096 --> of them.\n\n"
    assert scan(project(tmp_path, good), world[1]).exit_code == 0
    assert scan(project(tmp_path, good + unknown), world[1]).exit_code == 3
    assert scan(project(tmp_path, good + unknown + "dispatch beats vLLM.\n"), world[1]).exit_code == 1
    (tmp_path / "README.md").unlink()
    missing = scan(tmp_path, world[1])
    assert missing.exit_code == 3
    assert [c.document for c in missing.claims] == ["README.md"]
    (tmp_path / "pyproject.toml").write_text('[tool.checks]\ndocuments = ["*.md"]\n', encoding="utf-8")
    assert scan(tmp_path, world[1]).exit_code == 3  # no document: nothing was judged


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("", "has to be a list of globs"),
        ("[tool.checks]\ndocuments = []", "has to be a list of globs"),
        ("[tool.checks\n", "cannot be read"),
        ('[tool.checks]\ndocuments = ["/etc/*.md"]', "is no glob inside the project"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    tmp_path: Path, world: tuple[Path, Path], config: str, reason: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(config, encoding="utf-8")
    with pytest.raises(ChecksError, match=reason):
        scan(tmp_path, world[1])


def test_a_document_that_is_no_text_is_named(tmp_path: Path, world: tuple[Path, Path]) -> None:
    (project(tmp_path, "x") / "README.md").write_bytes(b"dispatch \xff\xfe")
    with pytest.raises(ChecksError, match=r"README\.md is no UTF-8 text"):
        scan(tmp_path, world[1])
