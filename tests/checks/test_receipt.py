"""A receipt vouches for one lake, one policy, one set of views and the report's own bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks import receipt
from checks.errors import ChecksError


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A report and its receipt."""
    reports = {"report.md": b"# Report\n"}
    made = receipt.make(fingerprint="lake-1", policy_sha256="policy-1", counts={"holds": 3}, reports=reports)
    (tmp_path / "report.md").write_bytes(reports["report.md"])
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(made))
    return path


def states(path: Path, fingerprint: str = "lake-1", policy: str = "policy-1") -> dict[str, str]:
    return dict(receipt.verify(path, fingerprint=fingerprint, policy_sha256=policy))


def test_unchanged(written: Path) -> None:
    assert states(written) == dict.fromkeys(("lake", "policy", "views", "report.md"), "as written")


def test_another_lake_and_another_policy(written: Path) -> None:
    changed = states(written, "lake-2", "policy-2")
    assert (changed["lake"], changed["policy"], changed["views"]) == ("changed", "changed", "as written")


def test_an_edited_report(written: Path) -> None:
    (written.parent / "report.md").write_text("# Report\nwe win\n")
    assert states(written)["report.md"] == "changed"


def test_a_report_that_is_gone(written: Path) -> None:
    (written.parent / "report.md").unlink()
    assert states(written)["report.md"] == "is gone"


def test_a_changed_view_is_named(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = receipt.view_hashes() | {"views/70_winners.sql": "edited"}
    monkeypatch.setattr(receipt, "view_hashes", lambda: now)
    assert states(written)["views"] == "changed (views/70_winners.sql)"


def test_every_view_and_macro_is_hashed() -> None:
    hashes = receipt.view_hashes()
    assert "views/70_winners.sql" in hashes
    assert "macros/10_statistics.sql" in hashes
    assert all(len(h) == len(receipt.sha256(b"")) for h in hashes.values())


@pytest.mark.parametrize("content", ["", "[]", '{"receipt_version": 1}', '{"views": 3}'])
def test_what_is_no_receipt_is_refused(written: Path, content: str) -> None:
    written.write_text(content)
    with pytest.raises(ChecksError, match="is no receipt of a report"):
        states(written)
